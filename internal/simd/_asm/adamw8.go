package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// adamW8 emits adamW of moments that are read from codes: while the units for division and roots are busy, the others
// decode. It needs the registers of AVX-512.
func adamW8(v isa) {
	l := begin(v, "adamW8", "func(p, g, m, v []float32, code1, code2 *uint8, max1, max2 float32, "+
		"scale, keep, beta1, new1, beta2, new2, step, root2, eps float32) (most1, most2 float32)",
		[]string{"p", "g", "m", "v"},
		"decodeSigned(m, code1, max1)", "decodeUnsigned(v, code2, max2)",
		"adamW(p, g, m, v, scale, keep, beta1, new1, beta2, new2, step, root2, eps)",
		"return maxAbs(m), maxAbs(v)", "", "for len(p) a multiple of 16")
	l.whole = true
	for _, name := range []string{"code1", "code2"} {
		l.base[name] = Load(Param(name), GP64())
	}
	first, second := newDecoder(l, true), newDecoder(l, false)
	max1, max2, u := l.scalar("max1"), l.scalar("max2"), l.adamWScalars()
	most := l.sums(2)
	l.run(1, func(int) {
		l.adamW(u, first.load("code1", max1), second.load("code2", max2), func(m, w reg.VecVirtual) {
			a := v.reg()
			l.magnitude(m, a)
			VMAXPS(most[0], a, most[0])
			VMAXPS(most[1], w, most[1]) // not below 0
		})
	})
	for i, r := range most {
		storeJoined(l.foldHalves(r, VMAXPS), VMAXPS, i)
	}
	l.end()
}
