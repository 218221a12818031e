package nn

// Sequence is the tokens of one text that a model has read, and the blocks of a cache that have their keys and
// values: token j lies in block table[j/size], in the place j%size.
type Sequence struct {
	cache   *Cache
	variant *Variant // that reads it; nil for the model alone
	tokens  []int32
	table   []int32
	full    []content // what the first blocks hold, as far as they are full
}

// NewSequence returns one without tokens.
func (c *Cache) NewSequence() *Sequence { return c.NewSequenceOf(nil) }

// Len returns the number of tokens.
func (s *Sequence) Len() int { return len(s.tokens) }

// Tokens returns them. Do not change them.
func (s *Sequence) Tokens() []int32 { return s.tokens }

// Share lets an empty sequence begin with as many of the tokens as full blocks of the cache have, and returns how
// many these are: other sequences have read them. The blocks are nobody's to write to any more.
func (s *Sequence) Share(tokens []int32) int {
	size, before := s.cache.size, s.root()
	for len(s.tokens)+size <= len(tokens) {
		next := tokens[len(s.tokens):][:size]
		before = before.after(next)
		block, ok := s.cache.blocks.hold(before)
		if !ok {
			break
		}
		s.table, s.full, s.tokens = append(s.table, block), append(s.full, before), append(s.tokens, next...)
	}
	return len(s.tokens)
}

// Reserve takes blocks for n more tokens. After ErrNoBlocks the sequence keeps what it got.
func (s *Sequence) Reserve(n int) error {
	for len(s.table)*s.cache.size < len(s.tokens)+n {
		block, err := s.cache.take()
		if err != nil {
			return err
		}
		s.table = append(s.table, block)
	}
	return nil
}

// advance adds tokens whose keys and values are in the cache.
func (s *Sequence) advance(ids []int32) {
	s.tokens = append(s.tokens, ids...)
	for size := s.cache.size; s.cache.Keeps && (len(s.full)+1)*size <= len(s.tokens); {
		n := len(s.full)
		before := s.root()
		if n > 0 {
			before = s.full[n-1]
		}
		s.full = append(s.full, before.after(s.tokens[n*size:][:size]))
		s.cache.blocks.fill(s.table[n], s.full[n])
	}
}

// Truncate forgets all tokens but the first n; what is not there is not missed. A block that is cut within
// is read again from its beginning if other sequences have it, too: fewer tokens may be left.
func (s *Sequence) Truncate(n int) {
	b, size := &s.cache.blocks, s.cache.size
	if n = max(n, 0); n >= len(s.tokens) {
		return
	}
	keep := n / size
	if n%size != 0 {
		if b.users[s.table[keep]] > 1 {
			n = keep * size
		} else {
			b.forget(s.table[keep])
			keep++
		}
	}
	s.release(keep)
	s.tokens, s.full = s.tokens[:n], s.full[:min(len(s.full), n/size)]
}

// Free gives the blocks back. The sequence is empty afterwards.
func (s *Sequence) Free() {
	s.release(0)
	s.tokens, s.full = nil, nil
}

// release gives all blocks but the first n back, the last first: the beginning of a text is what others may share.
func (s *Sequence) release(n int) {
	for i := len(s.table) - 1; i >= n; i-- {
		s.cache.blocks.release(s.table[i])
	}
	s.table = s.table[:min(len(s.table), n)]
}
