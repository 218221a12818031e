package tokenizer

// mergeWord is a word while its symbols merge: a linked list of symbols, and the
// merges that may be done next in a heap. A word of n characters so takes time
// n log n; sentencepiece-style models make one "word" of a whole text.
type mergeWord struct {
	symbols []symbol
	queue   []candidate
}

// symbol is one token of the word; prev and next are indices, -1 and the number of
// symbols at the ends. The symbol at 0 is never merged away, so that the list
// begins there.
type symbol struct {
	id, prev, next int32
	gone           bool // merged into the symbol before it
}

// candidate is the merge of the symbols at pos and after it: the merge's rank in
// the upper and pos in the lower half, so that the lowest rank and then the
// leftmost comes first.
type candidate uint64

// reset empties the word.
func (w *mergeWord) reset() { w.symbols, w.queue = w.symbols[:0], w.queue[:0] }

// add appends a symbol.
func (w *mergeWord) add(id int32) {
	n := int32(len(w.symbols))
	w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: n + 1})
}

// mergeAll merges until no two neighbours do.
func (w *mergeWord) mergeAll(merges map[pair]merge) {
	for i := range w.symbols {
		w.propose(int32(i), merges)
	}
	for len(w.queue) > 0 {
		top := w.pop()
		pos := int32(uint32(top))
		m, ok := w.mergeAt(pos, merges)
		if !ok || m.rank != int32(top>>32) {
			continue // one of the two has merged with another since
		}
		s := &w.symbols[pos]
		right := &w.symbols[s.next]
		right.gone = true
		s.id, s.next = m.id, right.next
		if int(s.next) < len(w.symbols) {
			w.symbols[s.next].prev = pos
		}
		w.propose(s.prev, merges)
		w.propose(pos, merges)
	}
}

// mergeAt returns the merge of the symbols at pos and after it.
func (w *mergeWord) mergeAt(pos int32, merges map[pair]merge) (merge, bool) {
	if pos < 0 || w.symbols[pos].gone || int(w.symbols[pos].next) >= len(w.symbols) {
		return merge{}, false
	}
	s := w.symbols[pos]
	m, ok := merges[pair{s.id, w.symbols[s.next].id}]
	return m, ok
}

// propose queues the merge at pos, if there is one.
func (w *mergeWord) propose(pos int32, merges map[pair]merge) {
	if m, ok := w.mergeAt(pos, merges); ok {
		w.push(candidate(m.rank)<<32 | candidate(pos))
	}
}

// push adds c to the heap.
func (w *mergeWord) push(c candidate) {
	w.queue = append(w.queue, c)
	q := w.queue
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if q[parent] <= q[i] {
			return
		}
		q[parent], q[i] = q[i], q[parent]
		i = parent
	}
}

// pop removes the least candidate of a heap that is not empty.
func (w *mergeWord) pop() candidate {
	q := w.queue
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if least+1 < last && q[least+1] < q[least] {
			least++
		}
		if q[i] <= q[least] {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	w.queue = q
	return top
}
