package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// line is the size of a cache line. The loops of the kernels of few rows take one of each row of the
// weight at a time, and ask for one of each row of the next block.
const line = 64

// weightType is how the elements of a weight are stored, and how a vector of them is widened.
type weightType struct {
	name string
	size int
	wide func(from Mem, to reg.VecVirtual)
}

var weightTypes = []weightType{
	{"", 4, func(from Mem, to reg.VecVirtual) { VMOVUPS(from, to) }},
	{"BFloat16", 2, func(from Mem, to reg.VecVirtual) {
		VPMOVZXWD(from, to)
		VPSLLD(Imm(16), to, to)
	}},
	{"Float16", 2, func(from Mem, to reg.VecVirtual) { VCVTPH2PS(from, to) }},
	{"Int8", 1, func(from Mem, to reg.VecVirtual) {
		VPMOVSXBD(from, to)
		VCVTDQ2PS(to, to)
	}},
}

// few is the kernel of a product of few rows with a weight whose rows lie as they are stored. A block of
// it is all its rows and some columns, each sum of which is one vector until the inner dimension ends.
type few struct {
	v          isa
	t          weightType
	rows, cols int
	w, x       rowsAt
	mask       reg.Register
	sums       [][]reg.VecVirtual
}

// rowsAt are rows that lie a stride apart, up to eight.
type rowsAt struct {
	base    reg.Register
	strides map[int]reg.Register // one of them, or 3, 5 or 7
}

// newRows loads two parameters, of which the second is a stride in bytes, for so many rows.
func newRows(base, stride string, rows int) rowsAt {
	r := rowsAt{Load(Param(base), GP64()), map[int]reg.Register{1: Load(Param(stride), GP64())}}
	for odd := 3; odd < rows; odd += 2 {
		r.strides[odd] = GP64()
	}
	if rows > 3 {
		LEAQ(Mem{Base: r.strides[1], Index: r.strides[1], Scale: 2}, r.strides[3])
	}
	for odd := 5; odd < rows; odd += 2 {
		LEAQ(Mem{Base: r.strides[odd-2], Index: r.strides[1], Scale: 2}, r.strides[odd])
	}
	return r
}

// row is where a row is, disp bytes from its beginning.
func (r rowsAt) row(i, disp int) Mem {
	m := Mem{Base: r.base, Disp: disp}
	if i > 0 {
		m.Scale = 1
		for i%2 == 0 {
			i, m.Scale = i/2, 2*m.Scale
		}
		m.Index = r.strides[i]
	}
	return m
}

// emitFew emits the kernels of 1, 2, 4, ... rows, as many as have room in the registers: 8 or 4.
func emitFew(v isa) {
	most := v.lanes / 2
	for _, t := range weightTypes {
		for rows := 1; rows <= most; rows *= 2 {
			cols := 4
			if rows == most {
				cols = 2
			}
			(&few{v: v, t: t, rows: rows, cols: cols}).emit()
		}
	}
}

func (f *few) emit() {
	name := fmt.Sprintf("few%d%s%s", f.rows, f.t.name, f.v.name)
	TEXT(name, NOSPLIT, "func(k int, x *float32, strideX int, w *byte, strideW, n int, y *float32, strideY int)")
	element, multiple := "float32(w[j][p])", fmt.Sprintf(" k is a multiple of %d.", f.v.lanes)
	if f.t.size == 4 {
		element, multiple = "w[j][p]", ""
	}
	Doc(fmt.Sprintf("%s computes %d rows of a product of few rows; strides are in bytes.%s", name, f.rows, multiple), "",
		fmt.Sprintf("	for i := range %d {", f.rows),
		"		for j := range n {",
		"			var sum [lanes]float32",
		"			for p := range k {",
		fmt.Sprintf("				sum[p%%lanes] = fma(x[i][p], %s, sum[p%%lanes])", element),
		"			}",
		"			y[i][j] = the sum of all in sum, in an order that lanes alone decides",
		"		}",
		"	}")
	Pragma("noescape")
	f.x, f.w = newRows("x", "strideX", f.rows), newRows("w", "strideW", 2*f.cols)
	if f.t.size == 4 {
		left := Load(Param("k"), GP64())
		ANDQ(Imm(uint64(f.v.lanes-1)), left)
		l := &loop{v: f.v}
		l.makeMask(left)
		f.mask = l.mask
	}
	f.columns("block", f.cols)
	f.columns("column", 1)
	VZEROUPPER()
	RET()
}

// columns emits the loop over blocks of so many columns.
func (f *few) columns(label string, cols int) {
	Label(label)
	n, err := Param("n").Resolve()
	if err != nil {
		panic(err)
	}
	CMPQ(n.Addr, Imm(uint64(cols)))
	JL(LabelRef(label + "end"))
	f.sums = make([][]reg.VecVirtual, f.rows)
	for i := range f.sums {
		for range cols {
			r := f.v.reg()
			zero(r)
			f.sums[i] = append(f.sums[i], r)
		}
	}
	f.terms(label, cols)
	f.write(cols)
	for range cols {
		ADDQ(f.w.strides[1], f.w.base)
	}
	SUBQ(Imm(uint64(cols)), n.Addr)
	JMP(LabelRef(label))
	Label(label + "end")
}

// terms emits the loops over the inner dimension, after which x and w point to its beginning again.
func (f *few) terms(label string, cols int) {
	left, vector := Load(Param("k"), GP64()), f.v.lanes*f.t.size
	steps := []int{line / vector}
	if line > vector {
		steps = append(steps, 1)
	}
	for _, copies := range steps {
		at := fmt.Sprintf("%sby%d", label, copies)
		Label(at)
		SUBQ(U32(uint64(copies*f.v.lanes)), left)
		JL(LabelRef(at + "end"))
		for u := range copies {
			f.step(cols, u, copies, nil)
		}
		ADDQ(U32(uint64(4*copies*f.v.lanes)), f.x.base)
		ADDQ(U32(uint64(copies*vector)), f.w.base)
		JMP(LabelRef(at))
		Label(at + "end")
		ADDQ(U32(uint64(copies*f.v.lanes)), left)
	}
	if f.mask != nil {
		TESTQ(left, left)
		JZ(LabelRef(label + "whole"))
		f.step(cols, 0, 1, f.mask)
		Label(label + "whole")
	}
	k := Load(Param("k"), GP64())
	SUBQ(left, k)
	LEAQ(Mem{Base: k, Index: k, Scale: 1}, left) // twice what was added up
	switch f.t.size {
	case 4:
		ADDQ(left, left)
		SUBQ(left, f.w.base)
		SUBQ(left, f.x.base)
		return
	case 2:
		SUBQ(left, f.w.base)
	case 1:
		SUBQ(k, f.w.base)
	}
	ADDQ(left, left)
	SUBQ(left, f.x.base)
}

// step emits the products of a vector of each row and each column, or of a part of one.
func (f *few) step(cols, u, copies int, mask reg.Register) {
	var ws []reg.VecVirtual
	for c := range cols {
		w := f.v.reg()
		f.load(f.w.row(c, u*f.v.lanes*f.t.size), w, f.t.wide, mask)
		ws = append(ws, w)
	}
	for i, sums := range f.sums {
		x := f.v.reg()
		f.load(f.x.row(i, u*f.v.bytes()), x, weightTypes[0].wide, mask)
		for c, s := range sums {
			VFMADD231PS(ws[c], x, s)
		}
		for c := range cols { // asked for here, the next block's lines do not go before those of this one
			if copies*f.v.lanes*f.t.size == line && c*copies/cols == u && i == min(c, f.rows-1) {
				PREFETCHT0(f.w.row(cols+c, 0))
			}
		}
	}
}

func (f *few) load(from Mem, to reg.VecVirtual, wide func(Mem, reg.VecVirtual), mask reg.Register) {
	switch {
	case mask == nil:
		wide(from, to)
	case f.v.lanes == 16:
		VMOVUPS_Z(from, mask, to)
	default:
		VMASKMOVPS(from, mask, to)
	}
}

// write emits the end of a block: of each row, the sums of the lanes of all its vectors, in the same order
// however many there are.
func (f *few) write(cols int) {
	y, stride := Load(Param("y"), GP64()), Load(Param("strideY"), GP64())
	for i, sums := range f.sums {
		pairs := []reg.VecVirtual{f.halve(sums[0], sums[min(1, cols-1)], VUNPCKLPS, VUNPCKHPS)}
		if cols == 4 {
			pairs = append(pairs, f.halve(sums[2], sums[3], VUNPCKLPS, VUNPCKHPS))
		}
		s := f.halve(pairs[0], pairs[len(pairs)-1], VUNPCKLPD, VUNPCKHPD)
		if f.v.lanes == 16 {
			high := YMM()
			VEXTRACTF64X4(Imm(1), s, high)
			VADDPS(high, s.AsY(), s.AsY())
		}
		high := XMM()
		if f.v.lanes == 16 {
			VEXTRACTF32X4(Imm(1), s.AsY(), high)
		} else {
			VEXTRACTF128(Imm(1), s, high)
		}
		VADDPS(high, s.AsX(), s.AsX())
		switch cols {
		case 1:
			VMOVSS(s.AsX(), Mem{Base: y})
		case 2:
			VMOVSD(s.AsX(), Mem{Base: y})
		default:
			VMOVUPS(s.AsX(), Mem{Base: y})
		}
		if i < f.rows-1 {
			ADDQ(stride, y)
		}
	}
	done, err := Param("y").Resolve()
	if err != nil {
		panic(err)
	}
	ADDQ(Imm(uint64(4*cols)), done.Addr)
}

// halve adds half of the lanes of a to the other half, and those of b, side by side.
func (f *few) halve(a, b reg.VecVirtual, low, high func(...Op)) reg.VecVirtual {
	l, h := f.v.reg(), f.v.reg()
	low(b, a, l)
	high(b, a, h)
	VADDPS(h, l, l)
	return l
}
