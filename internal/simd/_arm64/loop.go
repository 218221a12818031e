package main

import (
	"fmt"
	"math"
)

// lanes is how many float32 a vector has.
const lanes = 4

// loop is a function that walks over slices of one length, a vector at a time, and an
// element at a time over what is left at the end: then the other lanes are zero.
type loop struct {
	*function
	slices []string
	base   map[string]string // a register for each slice
	length string
	ahead  int            // vectors from the registers to where it is
	pairs  bool           // two vectors are loaded at once, and stored
	second map[string]vec // what was loaded for the next copy, and what waits to be stored with its
	single bool           // an element at a time
	spare  string
	kept   map[uint32]vec
}

// begin emits the head of a function; the length is that of the first slice. The comment
// is the loop that it equals.
func begin(name, signature string, slices []string, doc ...string) *loop {
	f := newFunction(name, signature, append([]string{"is"}, doc...)...)
	l := &loop{function: f, slices: slices, base: map[string]string{}, second: map[string]vec{}, kept: map[uint32]vec{}}
	for _, s := range slices {
		l.base[s] = f.load64(f.at(s, "_base"))
	}
	l.length = f.load64(f.at(slices[0], "_len"))
	l.spare = f.int()
	return l
}

// scalar returns a parameter in every lane.
func (l *loop) scalar(name string) vec {
	r := l.vec()
	l.ins("FMOVS", l.at(name, ""), r.part())
	l.ins("VDUP", fmt.Sprintf("V%d.S[0]", uint32(r)), r)
	return r
}

// constant returns a number in every lane, in a register that is loaded before the loop.
func (l *loop) constant(x float32) vec { return l.bits(math.Float32bits(x)) }

// bits returns a word in every lane. All that a body uses must have been asked for before
// the loop.
func (l *loop) bits(u uint32) vec {
	r, ok := l.kept[u]
	if !ok {
		r = l.vec()
		l.ins("MOVD", fmt.Sprintf("$0x%08x", u), l.spare)
		l.ins("VDUP", l.spare, r)
		l.kept[u] = r
	}
	return r
}

// run emits the loop around body, the main part of it unrolled so many times, 1 or an even
// number; body is told which copy it is, so that sums can be kept apart. A register that
// it stores must stay as it is until the next copy is at the same place.
func (l *loop) run(unroll int, body func(number int)) {
	step := func(label string, copies, elements int) {
		l.label(label)
		mark := l.vectors
		l.pairs = copies > 1
		for l.ahead = range copies {
			body(l.ahead)
			if l.ahead%2 == 1 || copies == 1 {
				l.release(mark)
			}
		}
		l.ahead = 0
		for _, s := range l.slices {
			l.ins("ADD", fmt.Sprintf("$%d", elements*l.element[s]), l.base[s])
		}
		l.ins("SUBS", fmt.Sprintf("$%d", elements), l.length)
		l.ins("BGE", label)
	}
	// Inside of a step, length is what is left after it.
	l.ins("SUBS", fmt.Sprintf("$%d", unroll*lanes), l.length)
	if unroll > 1 {
		l.ins("BLT", "rest")
		step("blocks", unroll, unroll*lanes)
		l.label("rest")
		l.ins("ADDS", fmt.Sprintf("$%d", (unroll-1)*lanes), l.length)
	}
	l.ins("BLT", "tail")
	step("vectors", 1, lanes)
	l.label("tail")
	l.ins("ADDS", fmt.Sprintf("$%d", lanes-1), l.length)
	l.ins("BLT", "done")
	l.single = true
	step("elements", 1, 1)
	l.label("done")
}

func (l *loop) mem(name string) string {
	return mem(l.ahead*lanes*l.element[name], l.base[name])
}

// The instructions that move one vector of numbers of so many bytes, and two.
var (
	moveOne = map[int]string{4: "FMOVQ", 2: "FMOVD", 1: "FMOVS"}
	loadTwo = map[int]string{4: "FLDPQ", 2: "FLDPD", 1: "FLDPS"}
)

// load reads the next numbers of a slice. Smaller ones than float32 are side by side at
// the low end of the vector, unless it is one, which is extended to 32 bits.
func (l *loop) load(name string) vec {
	if r, ok := l.second["load "+name]; ok {
		delete(l.second, "load "+name)
		return r
	}
	r, size := l.vec(), l.element[name]
	switch {
	case l.pairs:
		next := l.vec()
		l.second["load "+name] = next
		l.ins(loadTwo[size], l.mem(name), pair(r, next))
	case !l.single:
		l.ins(moveOne[size], l.mem(name), r.part())
	case size == 4:
		l.ins("FMOVS", l.mem(name), r.part())
	default:
		l.ins(map[int]string{2: "MOVHU", 1: "MOVB"}[size], l.mem(name), l.spare)
		l.ins("FMOVS", l.spare, r.part())
	}
	return r
}

// store writes the next numbers of a slice.
func (l *loop) store(r vec, name string) {
	size := l.element[name]
	switch {
	case l.pairs && l.ahead%2 == 0:
		l.second["store "+name] = r
	case l.pairs:
		at := mem((l.ahead-1)*lanes*size, l.base[name])
		l.ins(map[int]string{4: "FSTPQ", 2: "FSTPD"}[size], pair(l.second["store "+name], r), at)
	case !l.single:
		l.ins(moveOne[size], r.part(), l.mem(name))
	case size == 4:
		l.ins("FMOVS", r.part(), l.mem(name))
	default:
		l.ins("FMOVS", r.part(), l.spare)
		l.ins("MOVH", l.spare, l.mem(name))
	}
}

// pair names the registers of two vectors that are moved at once.
func pair(a, b vec) string { return "(" + a.part() + ", " + b.part() + ")" }

// sums returns n vectors of zeros.
func (l *loop) sums(n int) []vec {
	s := l.vecs(n)
	for _, r := range s {
		l.zero(r)
	}
	return s
}

// end emits the return.
func (l *loop) end() *function {
	l.ret()
	return l.function
}

// fold joins four vectors.
func (l *loop) fold(s []vec, join encoding) vec {
	l.do(join, s[0], s[0], s[1])
	l.do(join, s[2], s[2], s[3])
	l.do(join, s[0], s[0], s[2])
	return s[0]
}

// finish returns the sum of four vectors.
func (l *loop) finish(s []vec) *function {
	r := l.fold(s, fadd)
	l.do(faddp, r, r, r)
	l.do(addPair, r, r)
	l.ins("FMOVS", r.part(), l.at("ret", ""))
	return l.end()
}
