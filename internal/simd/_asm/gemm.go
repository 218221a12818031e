package main

import (
	"fmt"
	mathbits "math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unroll is how many steps of the inner dimension the loops of a block take at once, unless it is long.
const unroll = 4

// block is the kernel of a block of c, some rows high and vecs vectors wide. Every row keeps
// vecs sums in registers; each step of the inner dimension reads vecs vectors of b and one
// element of a for each row.
type block struct {
	v          isa
	rows, vecs int
	k, a, b    reg.Register
	lane, step reg.Register // bytes from one element of a to that of the next row, or step
	width      reg.Register // bytes from one step of b to the next, unless the block is long
	far, b3    reg.Register // the fourth row of a, the fourth step of b
	sums       [][]reg.VecVirtual
	columns    []reg.VecVirtual
	x          [2]reg.VecVirtual // two, so that no broadcast waits for the one before
}

// emitBlock emits a kernel. The left operand lies in any order: two strides find its
// elements, but one of them must be 1, so that a few registers point to all that the
// unrolled loops read.
func emitBlock(v isa, rows, vecs int) {
	k := &block{v: v, rows: rows, vecs: vecs}
	if k.long() {
		k.emitLong()
		return
	}
	width := vecs * v.lanes
	k.begin("width", fmt.Sprintf("computes %d rows of up to %d columns, but more than %d: with b of width and", rows,
		width, width-v.lanes), "b[p][j]")
	k.start()
	k.loops()
	k.finish()
}

// emitLong emits a kernel that goes from panel to panel. What a loop changes is read again, and what tells where a panel
// begins is kept where it was handed over.
func (k *block) emitLong() {
	width := k.vecs * k.v.lanes
	does := "computes %d rows of cols columns, more than %d of them of the last panel of b: with pitch elements"
	k.begin("pitch", fmt.Sprintf(does, k.rows, width-k.v.lanes),
		fmt.Sprintf("b[j/%d*pitch+p*%d+j%%%d]", width, width, width),
		fmt.Sprintf("from one panel of %d to the next,", width))
	Label("panel")
	k.start()
	k.loops()
	k.finish()
}

// begin begins a kernel whose b is found by the parameter of that name.
func (k *block) begin(b, does, element string, more ...string) {
	TEXT(fmt.Sprintf("block%dx%d%s", k.rows, k.vecs*k.v.lanes, k.v.name), NOSPLIT, "func(k int, a *float32, lane, step int, "+
		"b *float32, "+b+" int, c *float32, stride, cols int, add bool)")
	lines := append([]string{fmt.Sprintf("block%dx%d%s %s", k.rows, k.vecs*k.v.lanes, k.v.name, does)}, more...)
	Doc(append(lines, "c of stride elements a row, and lane or step 1,",
		"",
		fmt.Sprintf("	for i := range %d {", k.rows),
		"		for j := range cols {",
		"			var sum float32",
		"			for p := range k {",
		"				sum = fma(a[i*lane+p*step], "+element+", sum)",
		"			}",
		"			if add {",
		"				sum = c[i][j] + sum",
		"			}",
		"			c[i][j] = sum",
		"		}",
		"	}")...)
	Pragma("noescape")
}

// long tells that the loop over elements of a row takes a line of each at once, and so asks for each line once. That is
// for the widest blocks of AVX2, where the other thread of a core, when it is busy, leaves instructions short, not
// arithmetic: of six rows, a step has 20 instructions for 12 that multiply and add, and the loop had 3.5 besides with four
// steps at a time, and has 0.8. The panel of b of such a block is as wide as the block.
func (k *block) long() bool { return k.v.lanes == 8 && k.vecs == 2 }

// along is how many steps the loop over elements of a row takes at once.
func (k *block) along() int {
	if k.long() {
		return 16
	}
	return unroll
}

// elements returns a parameter that counts elements, in bytes.
func elements(name string) reg.Register {
	r := Load(Param(name), GP64())
	SHLQ(Imm(2), r)
	return r
}

// start reads what the loops need and clears the sums. It fetches c, which is needed only after the loops.
func (k *block) start() {
	k.k, k.a, k.b = Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	k.lane, k.step = elements("lane"), elements("step")
	if !k.long() {
		k.width = elements("width")
	}
	ahead, stride := Load(Param("c"), GP64()), elements("stride")
	k.sums = make([][]reg.VecVirtual, k.rows)
	for i := range k.sums {
		for line := 0; line < k.vecs*k.v.bytes(); line += 64 {
			PREFETCHT0(Mem{Base: ahead, Disp: line})
		}
		if i < k.rows-1 {
			ADDQ(stride, ahead)
		}
		for range k.vecs {
			r := k.v.reg()
			zero(r)
			k.sums[i] = append(k.sums[i], r)
		}
	}
	for range k.vecs {
		k.columns = append(k.columns, k.v.reg())
	}
	k.x = [2]reg.VecVirtual{k.v.reg(), k.v.reg()}
}

// loops emits the three loops: over elements of a row, over elements across the rows, and
// over the steps that are left.
func (k *block) loops() {
	times, four := GP64(), GP64()
	k.far, k.b3 = GP64(), GP64()
	if !k.long() {
		LEAQ(Mem{Base: k.b, Index: k.width, Scale: 2}, k.b3)
		ADDQ(k.width, k.b3)
	}
	CMPQ(k.step, Imm(4))
	JNE(LabelRef("across"))

	k.count(times, k.along())
	k.fourth()
	below, belowFar := k.below()
	Label("along")
	for i := range k.rows {
		PREFETCHT0(row(i, below, belowFar, k.lane, 0))
	}
	for u := range k.along() {
		k.one(u, func(i int) Mem { return k.element(i, 4*u) })
	}
	on := Imm(uint64(4 * k.along()))
	ADDQ(on, below)
	if k.rows > 3 {
		ADDQ(on, belowFar)
	}
	ADDQ(on, k.a)
	if k.rows > 3 {
		ADDQ(on, k.far)
	}
	k.advanceB(k.along())
	DECQ(times)
	JNZ(LabelRef("along"))
	JMP(LabelRef("rest"))

	Label("across")
	k.count(times, unroll)
	LEAQ(Mem{Base: k.a, Index: k.step, Scale: 2}, k.far) // of the steps, here
	ADDQ(k.step, k.far)
	MOVQ(k.step, four)
	SHLQ(Imm(2), four)
	Label("acrossloop")
	for u := range unroll {
		k.one(u, func(i int) Mem { return at(u, k.a, k.far, k.step, 4*i) })
	}
	ADDQ(four, k.a)
	ADDQ(four, k.far)
	k.advanceB(unroll)
	DECQ(times)
	JNZ(LabelRef("acrossloop"))

	Label("rest")
	TESTQ(k.k, k.k)
	JZ(LabelRef("sums"))
	k.fourth()
	Label("restloop")
	k.one(0, func(i int) Mem { return k.element(i, 0) })
	ADDQ(k.step, k.a)
	if k.rows > 3 {
		ADDQ(k.step, k.far)
	}
	k.advanceB(1)
	DECQ(k.k)
	JNZ(LabelRef("restloop"))
	Label("sums")
}

// count splits k into times that a loop takes so many steps at once, and those that are left.
func (k *block) count(times reg.Register, steps int) {
	MOVQ(k.k, times)
	ANDQ(Imm(uint64(steps-1)), k.k)
	SHRQ(Imm(uint64(mathbits.TrailingZeros(uint(steps)))), times)
	JZ(LabelRef("rest"))
}

// advanceB moves on by one step, or by those of a loop.
func (k *block) advanceB(steps int) {
	switch {
	case k.long():
		ADDQ(U32(steps*k.vecs*k.v.bytes()), k.b)
	case steps == 1:
		ADDQ(k.width, k.b)
	default:
		LEAQ(Mem{Base: k.b, Index: k.width, Scale: 4}, k.b)
		LEAQ(Mem{Base: k.b3, Index: k.width, Scale: 4}, k.b3)
	}
}

// elementB is where the j-th vector of the u-th step of those taken at once is.
func (k *block) elementB(u, j int) Mem {
	if k.long() {
		return Mem{Base: k.b, Disp: (u*k.vecs + j) * k.v.bytes()}
	}
	return at(u, k.b, k.b3, k.width, j*k.v.bytes())
}

// at is what lies i strides, up to three, and disp bytes after base; third is three after it.
func at(i int, base, third, stride reg.Register, disp int) Mem {
	m := Mem{Base: base, Disp: disp}
	switch i {
	case 1, 2:
		m.Index, m.Scale = stride, uint8(i)
	case 3:
		m.Base = third
	}
	return m
}

// fourth points far to the fourth row.
func (k *block) fourth() {
	if k.rows > 3 {
		LEAQ(Mem{Base: k.a, Index: k.lane, Scale: 2}, k.far)
		ADDQ(k.lane, k.far)
	}
}

// below points to the rows of a after those of the block, which are the next one's: they are short, and far
// apart, so that the processor does not guess them. Rows that lie a multiple of 4096 bytes apart share one set of a
// first-level cache of 32 KiB, which has 8 places: twice six would drive each other out (48 in place of 80 GFLOP/s
// on a Zen 3), so that below points to the block's own rows then.
func (k *block) below() (first, fourth reg.Register) {
	first = GP64()
	MOVQ(k.lane, first)
	IMUL3Q(Imm(uint64(k.rows)), first, first)
	ADDQ(k.a, first)
	if k.rows > 3 {
		fourth = GP64()
		LEAQ(Mem{Base: first, Index: k.lane, Scale: 2}, fourth)
		ADDQ(k.lane, fourth)
	}
	TESTQ(U32(4095), k.lane)
	CMOVQEQ(k.a, first)
	if k.rows > 3 {
		CMOVQEQ(k.far, fourth)
	}
	return first, fourth
}

// element is where that of a row is, when far points to the fourth.
func (k *block) element(i, disp int) Mem { return row(i, k.a, k.far, k.lane, disp) }

// row is disp bytes into the i-th of the rows that begin at first, when fourth points to that one.
func row(i int, first, fourth, lane reg.Register, disp int) Mem {
	if i < 3 {
		return at(i, first, nil, lane, disp)
	}
	return at(i-3, fourth, nil, lane, disp)
}

// one emits a step: the u-th of those taken at once.
func (k *block) one(u int, element func(row int) Mem) {
	for j, r := range k.columns {
		VMOVUPS(k.elementB(u, j), r)
	}
	for i, sums := range k.sums {
		x := k.x[i%2]
		VBROADCASTSS(element(i), x)
		for j, s := range sums {
			VFMADD231PS(k.columns[j], x, s)
		}
	}
}

// finish adds c to the sums if asked, and writes them; the last vector of a row may be
// there in part.
func (k *block) finish() {
	left, last := Load(Param("cols"), GP64()), &loop{v: k.v}
	SUBQ(Imm(uint64((k.vecs-1)*k.v.lanes)), left)
	if k.v.lanes < 16 { // a store through a mask is slow on some processors
		CMPQ(left, Imm(uint64(k.v.lanes)))
		JGE(LabelRef("whole"))
	}
	last.makeMask(left)
	k.write("partly", last)
	if k.v.lanes < 16 {
		Label("whole")
		if k.long() {
			k.write("wholly", nil, k.nextPanel)
		} else {
			k.write("wholly", nil)
		}
	}
}

// nextPanel goes on with the columns after those that are written, if there are any.
func (k *block) nextPanel() {
	width, cols := uint64(k.vecs*k.v.lanes), Load(Param("cols"), GP64())
	SUBQ(Imm(width), cols)
	JZ(LabelRef("end"))
	MOVQ(cols, argument("cols"))
	b, c, pitch := Load(Param("b"), GP64()), Load(Param("c"), GP64()), elements("pitch")
	ADDQ(pitch, b)
	ADDQ(Imm(4*width), c)
	MOVQ(b, argument("b"))
	MOVQ(c, argument("c"))
	JMP(LabelRef("panel"))
	Label("end")
}

// argument is where a parameter was handed over.
func argument(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// write emits the end of a kernel, whose last vectors go through a mask if there is one, and what comes before it returns.
func (k *block) write(name string, last *loop, after ...func()) {
	add, stride := Load(Param("add"), GP8()), elements("stride")
	TESTB(add, add)
	JZ(LabelRef(name))
	k.each(stride, last, func(c Mem, s reg.VecVirtual, mask reg.Register) {
		switch {
		case mask == nil:
			VADDPS(c, s, s)
		case k.v.lanes == 16:
			VADDPS(c, s, mask, s)
		default:
			VMASKMOVPS(c, mask, k.x[0])
			VADDPS(k.x[0], s, s)
		}
	})
	Label(name)
	k.each(stride, last, func(c Mem, s reg.VecVirtual, mask reg.Register) {
		switch {
		case mask == nil:
			VMOVUPS(s, c)
		case k.v.lanes == 16:
			VMOVUPS(s, mask, c)
		default:
			VMASKMOVPS(s, mask, c)
		}
	})
	for _, do := range after {
		do()
	}
	VZEROUPPER()
	RET()
}

// each calls f for every sum and its place in c, with the mask of those in the last column.
func (k *block) each(stride reg.Register, last *loop, f func(c Mem, s reg.VecVirtual, mask reg.Register)) {
	c := Load(Param("c"), GP64())
	for i, sums := range k.sums {
		for j, s := range sums {
			var mask reg.Register
			if last != nil && j == k.vecs-1 {
				mask = last.mask
			}
			f(Mem{Base: c, Disp: j * k.v.bytes()}, s, mask)
		}
		if i < k.rows-1 {
			ADDQ(stride, c)
		}
	}
}
