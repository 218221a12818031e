package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitInt8Rows emits what products of few rows of int8 spend their time in: sums of many columns, and what
// makes int8 of float32 and the other way round.
func emitInt8Rows() {
	for _, rows := range []int{1, 2} {
		(&int8Columns{rows: rows}).emit()
	}
	for _, rows := range []int{1, 2, 4} {
		(&int8Columns{rows: rows, vnni: true}).emit()
	}
	scaleSums()
	largestBits()
	quantise()
}

// int8Columns goes over four columns at a time as widenedBlock or vnniBlock does, and asks for later ones meanwhile, one line after
// the other: four streams of short rows were half as fast on AMD's Zen 3, and the cache of the first level asked for
// three quarters on Zen 4; see line.
type int8Columns struct {
	rows int
	vnni bool
	flip reg.VecVirtual
	q, w rowsAt
	sums [][]reg.VecVirtual
}

func (c *int8Columns) vector() reg.VecVirtual {
	if c.vnni {
		return ZMM()
	}
	return YMM()
}

func (c *int8Columns) emit() {
	const cols, far = 4, 2 // the lines that are asked for are so many times four columns on
	name, bytes, less := fmt.Sprintf("int8Columns%dAVX2", c.rows), 16, ""
	if c.vnni {
		name, bytes, less = fmt.Sprintf("int8Columns%dVNNI", c.rows), line, " with 128*of[i] taken away before,"
	}
	TEXT(name, NOSPLIT, "func(k, n int, q, w *int8, of, sums *int32)")
	Doc(name+" is", "", fmt.Sprintf("	for i := range %d {", c.rows), "		for j := range n {", "			sums[i*n+j] = 0",
		"			for at := range k { sums[i*n+j] += q[i*k+at] * w[j*k+at] }", "		}",
		"	},"+less+" k a multiple of 64 and n of 4")
	Pragma("noescape")
	k, n, left := Load(Param("k"), GP64()), Load(Param("n"), GP64()), GP64()
	three := GP64()
	LEAQ(Mem{Base: k, Index: k, Scale: 2}, three)
	strides := map[int]reg.Register{1: k, 3: three}
	c.q, c.w = rowsAt{Load(Param("q"), GP64()), strides}, rowsAt{Load(Param("w"), GP64()), strides}
	result := rowsAt{Load(Param("sums"), GP64()), map[int]reg.Register{1: GP64(), 3: GP64()}}
	MOVQ(n, result.strides[1])
	SHLQ(Imm(2), result.strides[1])
	LEAQ(Mem{Base: result.strides[1], Index: result.strides[1], Scale: 2}, result.strides[3])
	ahead := GP64()
	LEAQ(Mem{Base: c.w.base, Index: k, Scale: far * cols}, ahead)
	of := Load(Param("of"), GP64())
	if c.vnni {
		c.flip = ZMM()
		VPBROADCASTD(bits(0x80808080), c.flip)
	}
	Label("columns")
	c.sums = make([][]reg.VecVirtual, c.rows)
	for i := range c.sums {
		for range cols {
			s := c.vector()
			zero(s)
			c.sums[i] = append(c.sums[i], s)
		}
	}
	MOVQ(k, left)
	Label("terms")
	for u := range cols {
		PREFETCHT1(Mem{Base: ahead, Disp: line * u})
	}
	for at := 0; at < line; at += bytes {
		c.terms(at)
	}
	ADDQ(Imm(line), c.q.base)
	ADDQ(Imm(line), c.w.base)
	ADDQ(U32(cols*line), ahead)
	SUBQ(Imm(line), left)
	JNZ(LabelRef("terms"))
	for i, s := range c.sums {
		sums := fourSums(s)
		if c.vnni {
			offset := XMM()
			VPBROADCASTD(Mem{Base: of, Disp: 4 * i}, offset)
			VPSLLD(Imm(7), offset, offset)
			VPSUBD(offset, sums, sums)
		}
		VMOVUPS(sums, result.row(i, 0)) // which has a form for all registers
	}
	ADDQ(Imm(4*cols), result.base)
	SUBQ(k, c.q.base)
	ADDQ(three, c.w.base)
	SUBQ(Imm(cols), n)
	JNZ(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// terms adds a vector of products to each sum: sixteen, which are widened before, or 64.
func (c *int8Columns) terms(at int) {
	load := func(from Mem) reg.VecVirtual {
		r := c.vector()
		if c.vnni {
			VMOVDQU32(from, r)
		} else {
			VPMOVSXBW(from, r)
		}
		return r
	}
	var x []reg.VecVirtual
	for i := range c.sums {
		x = append(x, load(c.q.row(i, at)))
	}
	for j := range c.sums[0] {
		r := load(c.w.row(j, at))
		if c.vnni {
			VPXORD(c.flip, r, r)
		}
		for i := range c.sums {
			if c.vnni {
				VPDPBUSD(x[i], r, c.sums[i][j])
				continue
			}
			product := YMM()
			VPMADDWD(x[i], r, product)
			VPADDD(product, c.sums[i][j], c.sums[i][j])
		}
	}
}

// fourSums returns the sums of the lanes of four vectors, side by side.
func fourSums(s []reg.VecVirtual) reg.VecVirtual {
	quarter := func(of, x reg.Register) { VEXTRACTI128(Imm(1), of, x) }
	for i, r := range s {
		if r.Size() == line { // and registers from 16 on
			quarter = func(of, x reg.Register) { VEXTRACTI32X4(Imm(1), of, x) }
			half := YMM()
			VEXTRACTI64X4(Imm(1), r, half)
			VPADDD(half, r.AsY(), half)
			s[i] = half
		}
	}
	halve := func(a, b reg.VecVirtual, low, high func(...Op)) reg.VecVirtual {
		l, h := YMM(), YMM()
		low(b, a, l)
		high(b, a, h)
		VPADDD(h, l, l)
		return l
	}
	both := halve(halve(s[0], s[1], VPUNPCKLDQ, VPUNPCKHDQ), halve(s[2], s[3], VPUNPCKLDQ, VPUNPCKHDQ), VPUNPCKLQDQ,
		VPUNPCKHQDQ)
	x := XMM()
	quarter(both, x)
	VPADDD(x, both.AsX(), x)
	return x
}

func scaleSums() {
	l := begin(avx2, "scaleSums", "func(dst []float32, sums []int32, scale []float32, s float32)",
		[]string{"dst", "sums", "scale"}, "for i := range dst {", "	dst[i] = float32(sums[i]) * s * scale[i]", "}")
	s := l.scalar("s")
	l.run(2, func(int) {
		r := l.load("sums")
		VCVTDQ2PS(r, r)
		VMULPS(s, r, r)
		VMULPS(l.load("scale"), r, r)
		l.store(r, "dst")
	})
	l.end()
}

// largestBits compares numbers as their bits do, NaN above all.
func largestBits() {
	l := begin(avx2, "largestBits", "func(x []float32) uint32", []string{"x"},
		"m := 0", "for _, v := range x {", "	m = max(m, bits(v) without the sign)", "}", "return m")
	s := l.sums(2)
	l.run(2, func(number int) {
		r := l.load("x")
		VPAND(bits(math.MaxInt32), r, r)
		VPMAXUD(s[number], r, s[number])
	})
	most := s[0]
	VPMAXUD(s[1], most, most)
	x := XMM()
	VEXTRACTI128(Imm(1), most, x)
	for _, order := range []uint64{0, 0x4e, 0xb1} { // the other half, the other pair, the other one
		if order > 0 {
			VPSHUFD(Imm(order), most.AsX(), x)
		}
		VPMAXUD(x, most.AsX(), most.AsX())
	}
	result := GP32()
	VMOVD(most.AsX(), result)
	Store(result, ReturnIndex(0))
	l.end()
}

// quantise takes four vectors at a time, whose numbers become bytes in two steps that saturate.
func quantise() {
	TEXT("quantiseAVX2", NOSPLIT, "func(q []int8, x []float32, scale float32, offset int32)")
	Doc("quantiseAVX2 is", "", "	for i := range q {", "		q[i] = int8(clamp(round(clamp(x[i]/scale)) + offset))",
		"	}, len(q) a multiple of 32; NaN counts as 0")
	Pragma("noescape")
	q, x, n := Load(Param("q").Base(), GP64()), Load(Param("x").Base(), GP64()), Load(Param("q").Len(), GP64())
	scale, offset := YMM(), YMM()
	for i, r := range []reg.VecVirtual{scale, offset} {
		a, err := Param([]string{"scale", "offset"}[i]).Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSS(a.Addr, r)
	}
	order := YMM()
	VMOVDQU(table("lanesOfBytes", func(i int) uint32 { return uint32(i/2%4 + i%2*4) }), order)
	const far, ordered = 1 << 10, 7
	Label("bytes")
	SUBQ(Imm(32), n)
	JL(LabelRef("done"))
	var v []reg.VecVirtual
	for i := range 4 {
		r, number := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, r)
		VDIVPS(scale, r, r)
		VCMPPS(Imm(ordered), r, r, number)
		VANDPS(number, r, r)
		VMINPS(bits(math.Float32bits(far)), r, r)
		VMAXPS(bits(math.Float32bits(-far)), r, r)
		VCVTPS2DQ(r, r)
		VPADDD(offset, r, r)
		v = append(v, r)
	}
	for i := range 2 {
		VPACKSSDW(v[2*i+1], v[2*i], v[2*i])
	}
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VMOVDQU(v[0], Mem{Base: q})
	ADDQ(Imm(32), q)
	ADDQ(Imm(128), x)
	JMP(LabelRef("bytes"))
	Label("done")
	VZEROUPPER()
	RET()
}
