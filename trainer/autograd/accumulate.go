package autograd

import (
	"cmp"
	"slices"
)

// use says where on the tape a buffer is written and read.
type use struct {
	writer, out int   // the instruction, and which of its outputs the buffer is
	readers     []int // instructions, in order; one that reads it twice comes twice
}

// usage finds the uses of every buffer that is written on the tape.
func usage(tape []*instr) map[*slot]*use {
	uses := map[*slot]*use{}
	for i, in := range tape {
		for k, s := range in.writes {
			uses[s] = &use{writer: i, out: k}
		}
		for s := range in.reads {
			if u := uses[s]; u != nil {
				u.readers = append(u.readers, i)
			}
		}
	}
	return uses
}

// accumulate takes sums of gradients off the tape: the term that comes first is written,
// and the instructions of later terms add theirs to it in the order of the tape, as far
// as they can. What is left of a sum adds the rest.
func accumulate(tape []*instr) []*instr {
	uses := usage(tape)
	for i, in := range tape {
		if in.sum {
			(&folding{tape, uses, i}).fold()
		}
	}
	return slices.DeleteFunc(tape, func(in *instr) bool { return in.sum && len(in.in) == 0 })
}

// folding is what happens to one sum.
type folding struct {
	tape []*instr
	uses map[*slot]*use
	at   int // where the sum is
}

// fold empties the sum's inputs if nothing of it is left.
func (f *folding) fold() {
	sum := f.tape[f.at]
	total := sum.out[0].slot
	terms := f.terms(sum)
	var last *slot    // the sum so far: a term, to which others may have been added
	var apart []*slot // terms that the sum has to add
	for _, t := range terms {
		switch {
		case last != nil && f.adds(t, total) && f.free(last, f.uses[t].writer):
			f.add(t, last)
			last = t
		case f.base(t, total) && (last == nil || f.adds(t, total) && !f.alone(last)):
			// The one before, if any, is still needed as it is.
			if last != nil {
				apart = append(apart, last)
			}
			last = t
		default:
			apart = append(apart, t)
		}
	}
	if last != nil && len(apart) > 0 {
		apart = slices.Insert(apart, 0, last)
	}
	sum.in = refs(apart...)
	if len(apart) == 0 {
		f.rename(last, total)
	}
}

// terms returns the terms in the order in which they are written; leaves come first.
func (f *folding) terms(sum *instr) []*slot {
	var terms []*slot
	for s := range sum.reads {
		terms = append(terms, s)
	}
	written := func(s *slot) int {
		if u := f.uses[s]; u != nil {
			return u.writer
		}
		return -1
	}
	slices.SortStableFunc(terms, func(a, b *slot) int { return cmp.Compare(written(a), written(b)) })
	return terms
}

// base reports whether others may be added to a term, once nothing else reads it. A sum
// that instructions read stays out of reach of the plugins, so that a call of theirs can
// be repeated; one that is kept, which is the gradient of a parameter, may be completed
// in the memory of the plugin that began it. It can be large.
func (f *folding) base(t, total *slot) bool {
	return f.uses[t] != nil && !t.keep && (t.mem == total.mem || total.keep) && f.times(t) == 1
}

// times returns how often the sum reads a term.
func (f *folding) times(t *slot) int {
	n := 0
	for _, r := range f.uses[t].readers {
		if r == f.at {
			n++
		}
	}
	return n
}

// alone reports whether only the sum reads a term.
func (f *folding) alone(t *slot) bool { return len(f.uses[t].readers) == 1 }

// adds reports whether the instruction that writes a term can add it to a sum instead,
// and nobody reads the term by itself.
func (f *folding) adds(t, total *slot) bool {
	if !f.base(t, total) || !f.alone(t) {
		return false
	}
	u := f.uses[t]
	in := f.tape[u.writer]
	return slices.Contains(in.adds, u.out) && !in.addsTo(u.out)
}

// free reports whether nothing but the sum reads a term at instruction i or later, and
// the term is complete before: i may then change it.
func (f *folding) free(t *slot, i int) bool {
	u := f.uses[t]
	return u.writer < i && !slices.ContainsFunc(u.readers, func(r int) bool { return r >= i && r != f.at })
}

// add makes the instruction that writes t add to the sum so far.
func (f *folding) add(t, last *slot) {
	u, from := f.uses[t], f.uses[last]
	in := f.tape[u.writer]
	if in.over == nil {
		in.over = make([]*slot, len(in.out))
	}
	in.over[u.out], t.mem = last, last.mem
	from.readers[slices.Index(from.readers, f.at)] = u.writer
	slices.Sort(from.readers)
}

// rename makes the instruction that completes the sum write it under the sum's name.
func (f *folding) rename(last, total *slot) {
	w := f.uses[last]
	f.tape[w.writer].out[w.out].slot, total.mem = total, last.mem
	f.uses[total].writer, f.uses[total].out = w.writer, w.out
}
