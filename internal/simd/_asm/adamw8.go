package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eachBlock emits the loop around body, and before and after for each simd.CodeBlock of elements.
func (l *loop) eachBlock(before, body, after func()) {
	const block = 256
	length, end := l.base["len"], GP64()
	l.base["len"] = end
	Label("block")
	LEAQ(Mem{Base: l.at, Disp: block}, end)
	CMPQ(end, length)
	CMOVQGT(length, end)
	before()
	l.run(1, func(int) { body() })
	after()
	CMPQ(l.at, length)
	JL(LabelRef("block"))
}

// ahead is how many elements before they are read an update asks for their lines: those of the next call. Between two
// lines of one slice others are read for so long that the processor does not go on by itself.
const ahead = 1024

// adamW8 emits adamW of moments that are read from codes: while the units for division and roots are busy, the others
// decode. It needs the registers of AVX-512.
func adamW8(v isa) {
	l := begin(v, "adamW8", "func(p, g, m, v []float32, code1, code2 []uint8, max1, max2 []float32, "+
		"scale, keep, beta1, new1, beta2, new2, step, eps float32)",
		[]string{"p", "g", "m", "v", "code1", "code2", "max1", "max2"},
		"for i := range len(p) / 256 {", "	of the elements of block i of each {",
		"		decodeSigned(m, code1, max1[i])", "		decodeUnsigned(v, code2, max2[i])",
		"		adamW(p, g, m, v, scale, keep, beta1, new1, beta2, new2, step, eps)",
		"		max1[i], max2[i] = maxAbs(m), maxAbs(v)", "	}", "}", "", "for len(p) a positive multiple of 256")
	l.whole = true
	first, second := newDecoder(l, true), newDecoder(l, false)
	u := l.adamWScalars()
	max1, max2, most := v.reg(), v.reg(), l.sums(2)
	l.eachBlock(func() {
		VBROADCASTSS(Mem{Base: l.base["max1"]}, max1)
		VBROADCASTSS(Mem{Base: l.base["max2"]}, max2)
		zero(most[0])
		zero(most[1])
		for line := range 4 {
			PREFETCHT0(Mem{Base: l.base["code1"], Index: l.at, Scale: 1, Disp: ahead + 64*line})
			PREFETCHT0(Mem{Base: l.base["code2"], Index: l.at, Scale: 1, Disp: ahead + 64*line})
		}
	}, func() {
		PREFETCHT0(Mem{Base: l.base["g"], Index: l.at, Scale: 4, Disp: 4 * ahead})
		PREFETCHT0(Mem{Base: l.base["p"], Index: l.at, Scale: 4, Disp: 4 * ahead})
		l.adamW(u, first.load("code1", max1), second.load("code2", max2), func(m, w reg.VecVirtual) {
			a := v.reg()
			l.magnitude(m, a)
			VMAXPS(most[0], a, most[0])
			VMAXPS(most[1], w, most[1]) // not below 0
		})
	}, func() {
		for i, name := range []string{"max1", "max2"} {
			storeJoined(l.foldHalves(most[i], VMAXPS), VMAXPS, Mem{Base: l.base[name]})
			ADDQ(Imm(4), l.base[name])
		}
	})
	l.end()
}
