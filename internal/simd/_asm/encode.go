package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// encodeCodes emits the nearest codes: those of unsigned begin with 0, those of signed have it at 127.
func encodeCodes(v isa, signed bool) {
	name, zeroAt := "encodeUnsigned", "0"
	if signed {
		name, zeroAt = "encodeSigned", "127"
	}
	l := begin(v, name, "func(dst []uint8, x []float32, least *uint32, by float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = nearest(by * x[i])", "}, len(dst) a multiple of 16, zero at "+zeroAt)
	l.whole = true
	by := l.scalar("by")
	least := Load(Param("least"), GP64())
	l.run(1, func(int) {
		q := l.load("x")
		VMULPS(by, q, q)
		low, key, n, border := v.reg(), v.reg(), v.reg(), v.reg()
		l.magnitude(q, low)
		VPSRLD(Imm(16), low, key)
		VPMAXUD(bits(0x3380), key, key)
		VPMINUD(bits(0x3f80), key, key)
		VPSUBD(bits(0x3380), key, key)
		l.gather(least, key, n)
		VPSRLD(Imm(8), n, border)
		l.and(bits(0xffff), low, low)
		l.and(bits(0xff), n, n)
		l.countAbove(low, border, n)
		if signed {
			l.withSign(q, n)
		}
		l.store8(n, "dst")
	})
	l.end()
}
