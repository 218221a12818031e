package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// loop is a function that walks over slices of one length, a vector at a time; what is
// left at the end is read and written through a mask, so that nothing past the end is.
type loop struct {
	v      isa
	base   map[string]Register
	at     reg.GPVirtual // element
	offset int           // vectors after it
	masked bool
	mask   reg.Register
	whole  bool                      // only whole vectors are wanted
	stride int                       // elements of the first slice in a vector
	kept   map[uint32]reg.VecVirtual // numbers by their bits
	byte   reg.VecVirtual            // of narrow8
	order  reg.VecVirtual            // of narrow8 and narrow16
}

// Register is what the parameters are loaded to.
type Register = reg.Register

// begin emits the head of a function; the length is that of the first slice. The
// comment is the loop that it equals.
func begin(v isa, name, signature string, slices []string, doc ...string) *loop {
	TEXT(name+v.name, NOSPLIT, signature)
	lines := []string{name + v.name + " is", ""}
	for _, d := range doc {
		lines = append(lines, "\t"+d)
	}
	Doc(lines...)
	Pragma("noescape")
	l := &loop{v: v, base: map[string]Register{}, at: GP64(), kept: map[uint32]reg.VecVirtual{}, stride: v.lanes}
	for _, s := range slices {
		l.base[s] = Load(Param(s).Base(), GP64())
	}
	l.base["len"] = Load(Param(slices[0]).Len(), GP64())
	XORQ(l.at, l.at)
	return l
}

// scalar returns a parameter in every lane.
func (l *loop) scalar(name string) reg.VecVirtual {
	r := l.v.reg()
	a, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(a.Addr, r)
	return r
}

// run emits the loop around body, the main part of it unrolled; body is told which copy
// it is, so that sums can be kept apart.
func (l *loop) run(unroll int, body func(number int)) {
	length := l.base["len"]
	limit := GP64()
	step := func(label string, copies int) {
		MOVQ(length, limit)
		SUBQ(U32(uint64(copies*l.stride)), limit)
		Label(label)
		CMPQ(l.at, limit)
		JG(LabelRef(label + "end"))
		for l.offset = range copies {
			body(l.offset)
		}
		l.offset = 0
		ADDQ(U32(uint64(copies*l.stride)), l.at)
		JMP(LabelRef(label))
		Label(label + "end")
	}
	if unroll > 1 {
		step("blocks", unroll)
	}
	step("vectors", 1)
	if !l.whole {
		SUBQ(l.at, length)
		JZ(LabelRef("done"))
		l.makeMask(length)
		l.masked = true
		body(0)
		Label("done")
	}
}

// runApart is run for a body that returns the second of its results, which late names. Where they stream, it is written
// two cache lines behind the first, and each line as a whole: what AMD's Zen 3 writes to one place of two pages, where two
// results of one shape mostly are, goes one after the other, and both took twice as long as without streaming.
func (l *loop) runApart(late string, body func() reg.VecVirtual) {
	if l.v.stream {
		l.streamApart(late, body)
	}
	l.run(1, func(int) { l.store(body(), late) })
}

// streamApart leaves what is less than two lines.
func (l *loop) streamApart(late string, body func() reg.VecVirtual) {
	line := 64 / l.v.bytes() // vectors
	held, limit := l.sums(2*line), GP64()
	store := func(number int) { // two lines behind
		l.offset = number - len(held)
		VMOVNTPS(held[number], l.mem(late))
	}
	step := U32(uint64(len(held) * l.v.lanes))
	MOVQ(l.base["len"], limit)
	SUBQ(step, limit)
	Label("apart")
	CMPQ(l.at, limit)
	JG(LabelRef("apartend"))
	for first := 0; first < len(held); first += line {
		results := make([]reg.VecVirtual, line)
		for i := range results {
			l.offset = first + i
			results[i] = body()
		}
		begun := fmt.Sprint("begun", first)
		TESTQ(l.at, l.at)
		JZ(LabelRef(begun))
		for i := range results {
			store(first + i)
		}
		Label(begun)
		for i, r := range results {
			VMOVUPS(r, held[first+i])
		}
	}
	ADDQ(step, l.at)
	JMP(LabelRef("apart"))
	Label("apartend")
	TESTQ(l.at, l.at)
	JZ(LabelRef("apartdone"))
	for number := range held {
		store(number)
	}
	l.offset = 0
	Label("apartdone")
}

// makeMask makes a mask of the first lanes.
func (l *loop) makeMask(lanes Register) {
	if l.v.lanes == 16 {
		bits := GP32()
		MOVL(U32(0xffff), bits)
		shift := GP32()
		MOVL(U32(16), shift)
		SUBL(lanes.(reg.GP).As32(), shift)
		SHRXL(shift, bits, bits)
		k := K()
		KMOVW(bits, k)
		l.mask = k
		return
	}
	table := GP64()
	LEAQ(maskTable(), table)
	NEGQ(lanes)
	y := YMM()
	VMOVUPS(Mem{Base: table, Index: lanes, Scale: 4, Disp: 32}, y)
	l.mask = y
}

// maskTable returns eight words of ones and eight of zeros.
func maskTable() Mem {
	return table("mask", func(i int) uint32 {
		if i < 8 {
			return math.MaxUint32
		}
		return 0
	})
}

var tables = map[string]Mem{}

// table returns sixteen words of read-only data, made once.
func table(name string, word func(i int) uint32) Mem {
	if m, ok := tables[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < 16; i += 2 {
		DATA(4*i, U64(uint64(word(i))|uint64(word(i+1))<<32))
	}
	tables[name] = m
	return m
}

// constant returns a number in every lane: in a register if it is kept there, else in
// memory.
func (l *loop) constant(x float32) Op { return l.word(math.Float32bits(x)) }

// word is constant of the bits.
func (l *loop) word(u uint32) Op {
	if r, ok := l.kept[u]; ok {
		return r
	}
	return bits(u)
}

// keep puts numbers into registers before the loop, with AVX-512, which has plenty: a
// vector in memory would cross a cache line half of the time, since the linker aligns to
// 32 bytes at most.
func (l *loop) keep(numbers ...float32) {
	for _, x := range numbers {
		l.hold(math.Float32bits(x))
	}
}

// hold is keep of the bits of numbers.
func (l *loop) hold(words ...uint32) {
	for _, u := range words {
		if _, ok := l.kept[u]; ok || l.v.lanes < 16 {
			continue
		}
		l.kept[u] = l.v.reg()
		VBROADCASTSS(bits(u), l.kept[u])
	}
}

// fix puts a table into a register before the loop, with AVX-512.
func (l *loop) fix(name string, word func(i int) uint32) reg.VecVirtual {
	r := l.v.reg()
	VMOVUPS(table(name, word), r)
	return r
}

func bits(u uint32) Mem { return table(fmt.Sprintf("c%08x", u), func(int) uint32 { return u }) }

func (l *loop) mem(name string) Mem {
	return Mem{Base: l.base[name], Index: l.at, Scale: 4, Disp: l.offset * l.v.bytes()}
}

// load reads the next vector of a slice; lanes past the end are zero.
func (l *loop) load(name string) reg.VecVirtual {
	r := l.v.reg()
	switch {
	case !l.masked:
		VMOVUPS(l.mem(name), r)
	case l.v.lanes == 16:
		VMOVUPS_Z(l.mem(name), l.mask, r)
	default:
		VMASKMOVPS(l.mem(name), l.mask, r)
	}
	return r
}

// store writes the next vector of a slice of results, past the caches where they stream:
// what is left at the end is written through a mask and the ordinary way.
func (l *loop) store(r reg.VecVirtual, name string) {
	if l.v.stream && !l.masked {
		VMOVNTPS(r, l.mem(name))
		return
	}
	l.storeCached(r, name)
}

// storeCached writes the next vector of a slice that is read again soon.
func (l *loop) storeCached(r reg.VecVirtual, name string) {
	switch {
	case !l.masked:
		VMOVUPS(r, l.mem(name))
	case l.v.lanes == 16:
		VMOVUPS(r, l.mask, l.mem(name))
	default:
		VMASKMOVPS(r, l.mask, l.mem(name))
	}
}

// follow gives the memory after a slice, which is as long, a name.
func (l *loop) follow(slice, name string) {
	l.base[name] = GP64()
	LEAQ(Mem{Base: l.base[slice], Index: l.base["len"], Scale: 4}, l.base[name])
}

// elseTake puts other into the lanes of r that are past the end.
func (l *loop) elseTake(other, r reg.VecVirtual) {
	switch {
	case !l.masked:
	case l.v.lanes == 16:
		VBLENDMPS(r, other, l.mask, r)
	default:
		VBLENDVPS(l.mask, r, other, r)
	}
}

// end emits the return.
func (l *loop) end() {
	VZEROUPPER()
	RET()
}

// sums returns n vectors of zeros.
func (l *loop) sums(n int) []reg.VecVirtual {
	s := make([]reg.VecVirtual, n)
	for i := range s {
		s[i] = l.v.reg()
		zero(s[i])
	}
	return s
}
