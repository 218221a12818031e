package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitInt8Rows emits what products of few rows of int8 spend their time in with AVX2: sums of many columns, and what
// makes int8 of float32 and the other way round.
func emitInt8Rows() {
	for _, rows := range []int{1, 2} {
		int8Columns(rows)
	}
	scaleSums()
	largestBits()
	quantise()
}

// int8Columns goes over four columns at a time as widenedBlock does, and asks for the next four meanwhile, one line after
// the other: four streams of short rows were half as fast on AMD's Zen 3.
func int8Columns(rows int) {
	const cols = 4
	name := fmt.Sprintf("int8Columns%dAVX2", rows)
	TEXT(name, NOSPLIT, "func(k, n int, q, w *int8, sums *int32)")
	Doc(name+" is", "", fmt.Sprintf("	for i := range %d {", rows), "		for j := range n {", "			sums[i*n+j] = 0",
		"			for at := range k { sums[i*n+j] += q[i*k+at] * w[j*k+at] }", "		}",
		"	}, k a multiple of 64 and n of 4")
	Pragma("noescape")
	k, n, result := Load(Param("k"), GP64()), Load(Param("n"), GP64()), Load(Param("sums"), GP64())
	three := GP64()
	LEAQ(Mem{Base: k, Index: k, Scale: 2}, three)
	strides := map[int]reg.Register{1: k, 3: three}
	q, w := rowsAt{Load(Param("q"), GP64()), strides}, rowsAt{Load(Param("w"), GP64()), strides}
	ahead := GP64()
	LEAQ(Mem{Base: w.base, Index: k, Scale: cols}, ahead)
	second, left, sums := GP64(), GP64(), make([][]reg.VecVirtual, rows)
	LEAQ(Mem{Base: result, Index: n, Scale: 4}, second)
	Label("columns")
	for i := range sums {
		sums[i] = sums[i][:0]
		for range cols {
			s := YMM()
			zero(s)
			sums[i] = append(sums[i], s)
		}
	}
	MOVQ(k, left)
	Label("terms")
	for u := range line / 16 {
		PREFETCHT0(Mem{Base: ahead, Disp: line * u})
		int8Terms(q, w, sums, 16*u)
	}
	ADDQ(Imm(line), q.base)
	ADDQ(Imm(line), w.base)
	ADDQ(U32(cols*line), ahead)
	SUBQ(Imm(line), left)
	JNZ(LabelRef("terms"))
	for i, s := range sums {
		at := []reg.Register{result, second}[i]
		VMOVDQU(fourSums(s), Mem{Base: at})
		ADDQ(Imm(4*cols), at)
	}
	SUBQ(k, q.base)
	ADDQ(three, w.base)
	SUBQ(Imm(cols), n)
	JNZ(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// int8Terms adds sixteen products to each sum.
func int8Terms(q, w rowsAt, sums [][]reg.VecVirtual, at int) {
	var x []reg.VecVirtual
	for i := range sums {
		r := YMM()
		VPMOVSXBW(q.row(i, at), r)
		x = append(x, r)
	}
	for j := range sums[0] {
		r := YMM()
		VPMOVSXBW(w.row(j, at), r)
		for i := range sums {
			product := YMM()
			VPMADDWD(x[i], r, product)
			VPADDD(product, sums[i][j], sums[i][j])
		}
	}
}

// fourSums returns the sums of the lanes of four vectors, side by side.
func fourSums(s []reg.VecVirtual) reg.VecVirtual {
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
	VEXTRACTI128(Imm(1), both, x)
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
