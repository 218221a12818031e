package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// line is the size of a cache line. The loops of the kernels of few rows take one of each row of the weight at a time, and ask
// for as many that lie one after the other from where their caller says, by PREFETCHT1, for the cache of the second level: of
// the first level few can be on their way at a time. In the order of their addresses they come while the kernel computes; asked
// for in that of the rows, a page apart, reading and computing take as long as one after the other.
const line = 64

// fewTerms is internal/simd's.
const fewTerms = 512

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
	v           isa
	t           weightType
	rows, cols  int // rows are those of a pass
	passes      int // over a block, whose columns are in the first-level cache in the second
	w, x        rowsAt
	all         [][]reg.VecVirtual // sums of a block
	sums        [][]reg.VecVirtual // those of a pass
	ws          []reg.VecVirtual
	xs          reg.VecVirtual
	ahead       int          // lines that a pass asks for, for each of the rows of the weight
	next, apart reg.Register // the next one, and how far the one after it is: a line, or nothing if none are to be asked for
	left        Mem          // terms of a pass
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

// emitFew emits the kernels of 1, 2, 4 and 8 rows. As many of these as have room in the registers go at once: 8 or 4.
func emitFew(v isa) {
	most := v.lanes / 2
	for _, t := range weightTypes {
		for rows := 1; rows <= most; rows *= 2 {
			cols := 4
			if rows == most { // with which all registers are taken
				cols = 3
			}
			(&few{v: v, t: t, rows: rows, cols: cols, passes: 1}).emit()
		}
		if most < 8 {
			(&few{v: v, t: t, rows: most, cols: 3, passes: 8 / most}).emit()
		}
	}
}

func (f *few) emit() {
	rows := f.rows * f.passes
	name := fmt.Sprintf("few%d%s%s", rows, f.t.name, f.v.name)
	TEXT(name, NOSPLIT, "func(k int, x *float32, strideX int, w *byte, strideW, n int, y *float32, strideY int, next *byte)")
	element, multiple := "float32(w[j][p])", fmt.Sprintf(" k is a multiple of %d.", f.v.lanes)
	if f.t.size == 4 {
		element, multiple = "w[j][p]", ""
	}
	Doc(fmt.Sprintf("%s computes %d rows of a product of few rows; strides are in bytes.%s", name, rows, multiple), "",
		fmt.Sprintf("	for i := range %d {", rows),
		"		for j := range n {",
		fmt.Sprintf("			for from := 0; from < k; from += %d {", fewTerms),
		"				var sum [lanes]float32",
		fmt.Sprintf("				for p := from; p < min(from+%d, k); p++ {", fewTerms),
		fmt.Sprintf("					sum[p%%lanes] = fma(x[i][p], %s, sum[p%%lanes])", element),
		"				}",
		"				y[i][j] += the sum of all in sum, in an order that lanes alone decides",
		"			}",
		"		}",
		"	}",
		"",
		"Unless it is nil, next is where the lines of memory begin that are asked for meanwhile, as many as w has.")
	Pragma("noescape")
	f.x, f.w, f.left = newRows("x", "strideX", f.rows), newRows("w", "strideW", f.cols), AllocLocal(8)
	f.all, f.ws, f.xs = make([][]reg.VecVirtual, f.rows), nil, f.v.reg()
	for range f.cols {
		f.ws = append(f.ws, f.v.reg())
		for i := range f.all {
			f.all[i] = append(f.all[i], f.v.reg())
		}
	}
	f.asking()
	first := GP64()
	if f.passes > 1 {
		MOVQ(f.x.base, first)
	}
	f.columns("block", f.cols, first)
	f.columns("column", 1, first)
	VZEROUPPER()
	RET()
}

// asking loads what lines are asked for.
func (f *few) asking() {
	f.next, f.apart = Load(Param("next"), GP64()), GP64()
	none := GP64()
	MOVQ(U32(line), f.apart)
	XORQ(none, none)
	TESTQ(f.next, f.next)
	CMOVQEQ(none, f.apart)
	CMOVQEQ(f.w.base, f.next)
}

// columns emits the loop over blocks of so many columns; first is where x begins if there are several passes.
func (f *few) columns(label string, cols int, first reg.Register) {
	Label(label)
	n, err := Param("n").Resolve()
	if err != nil {
		panic(err)
	}
	CMPQ(n.Addr, Imm(uint64(cols)))
	JL(LabelRef(label + "end"))
	for pass := range f.passes {
		if pass > 0 {
			LEAQ(Mem{Base: f.x.base, Index: f.x.strides[1], Scale: uint8(f.rows)}, f.x.base)
		}
		f.ahead = (cols + f.passes - 1 - pass) / f.passes
		f.pass(fmt.Sprint(label, pass), pass, cols)
	}
	if f.passes > 1 {
		MOVQ(first, f.x.base)
	}
	done, err := Param("y").Resolve()
	if err != nil {
		panic(err)
	}
	ADDQ(Imm(uint64(4*cols)), done.Addr)
	for range cols {
		ADDQ(f.w.strides[1], f.w.base)
	}
	SUBQ(Imm(uint64(cols)), n.Addr)
	JMP(LabelRef(label))
	Label(label + "end")
}

// pass emits one over some columns: the sums of some rows.
func (f *few) pass(label string, number, cols int) {
	f.sums = nil
	for _, row := range f.all {
		f.sums = append(f.sums, row[:cols])
	}
	MOVQ(Load(Param("k"), GP64()), f.left)
	Label(label + "terms")
	for _, row := range f.sums {
		for _, r := range row {
			zero(r)
		}
	}
	f.terms(label, cols)
	f.write(number*f.rows, cols)
	CMPQ(f.left, Imm(0))
	JG(LabelRef(label + "terms"))
	f.rewind()
}

// terms emits the loops over the next terms of the inner dimension.
func (f *few) terms(label string, cols int) {
	left, most := GP64(), GP64()
	MOVQ(f.left, left)
	MOVQ(U32(fewTerms), most)
	CMPQ(left, most)
	CMOVQGT(most, left)
	SUBQ(left, f.left)
	vector := f.v.lanes * f.t.size
	steps := []int{max(1, line/vector)}
	if line > vector {
		steps = append(steps, 1)
	}
	for _, copies := range steps {
		at := fmt.Sprintf("%sby%d", label, copies)
		Label(at)
		SUBQ(U32(uint64(copies*f.v.lanes)), left)
		JL(LabelRef(at + "end"))
		for u := range copies {
			f.step(cols, u, copies)
		}
		ADDQ(U32(uint64(4*copies*f.v.lanes)), f.x.base)
		ADDQ(U32(uint64(copies*vector)), f.w.base)
		JMP(LabelRef(at))
		Label(at + "end")
		ADDQ(U32(uint64(copies*f.v.lanes)), left)
	}
	if f.t.size == 4 {
		TESTQ(left, left)
		JZ(LabelRef(label + "whole"))
		l := &loop{v: f.v}
		l.makeMask(left)
		f.rest(cols, l.mask)
		Label(label + "whole")
	}
}

// rewind has x and w point to the beginning of the inner dimension again, after its whole vectors.
func (f *few) rewind() {
	k := Load(Param("k"), GP64())
	ANDQ(I32(int32(-f.v.lanes)), k)
	for size := 1; size <= 4; size *= 2 {
		if size == f.t.size {
			SUBQ(k, f.w.base)
		}
		if size == 4 {
			SUBQ(k, f.x.base)
		}
		ADDQ(k, k)
	}
}

// step emits the products of a vector of each row and each column.
func (f *few) step(cols, u, copies int) {
	ws, x := f.ws[:cols], f.xs
	for c, w := range ws {
		f.t.wide(f.w.row(c, u*f.v.lanes*f.t.size), w)
	}
	for i, sums := range f.sums {
		VMOVUPS(f.x.row(i, u*f.v.bytes()), x)
		for c, s := range sums {
			VFMADD231PS(ws[c], x, s)
		}
		for n := range f.ahead { // asked for here, these lines do not go before those of this block
			if copies*f.v.lanes*f.t.size == line && n*copies/f.ahead == u && i == min(n, f.rows-1) {
				PREFETCHT1(Mem{Base: f.next})
				ADDQ(f.apart, f.next)
			}
		}
	}
}

// rest emits the products of a part of a vector. There may be a register for one column alone.
func (f *few) rest(cols int, mask reg.Register) {
	load := func(from Mem) reg.VecVirtual {
		r := f.v.reg()
		if f.v.lanes == 16 {
			VMOVUPS_Z(from, mask, r)
		} else {
			VMASKMOVPS(from, mask, r)
		}
		return r
	}
	for c := range cols {
		w := load(f.w.row(c, 0))
		for i, sums := range f.sums {
			VFMADD231PS(w, load(f.x.row(i, 0)), sums[c])
		}
	}
}
