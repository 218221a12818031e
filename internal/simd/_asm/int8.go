package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// bytes emits the conversion of 8-bit numbers. As with those of 16 bits, with AVX2 it is
// for whole vectors.
func bytes(v isa) {
	rest := ""
	if v.lanes == 8 {
		rest = ", len(dst) a multiple of 8"
	}
	l := begin(v, "fromInt8", "func(dst []float32, src []int8, scale float32)", []string{"dst", "src"},
		"for i := range dst {", "	dst[i] = scale * float32(src[i])", "}"+rest)
	l.whole = v.lanes == 8
	scale := l.scalar("scale")
	l.run(2, func(int) {
		r := l.v.reg()
		from := Mem{Base: l.base["src"], Index: l.at, Scale: 1, Disp: l.offset * l.v.lanes}
		if l.masked {
			VPMOVSXBD_Z(from, l.mask, r)
		} else {
			VPMOVSXBD(from, r)
		}
		VCVTDQ2PS(r, r)
		VMULPS(scale, r, r)
		l.store(r, "dst")
	})
	l.end()
}
