package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// nf4Values are core.NF4Values.
var nf4Values = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
	-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
	0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}

// nf4 emits the conversion of pairs of 4-bit codes, of whole vectors. A byte widened to 64 bits is two lanes: shifted
// right by 4 the first has the high code in its low bits, shifted left by 32 the second has the low code, and looking up
// minds no bits above.
func nf4(v isa) {
	rest := "len(dst) a multiple of 8"
	if v.lanes == 16 {
		rest = "len(dst) a multiple of 16"
	}
	l := begin(v, "fromNF4", "func(dst []float32, src []byte, absmax float32)", []string{"dst", "src"},
		"for i, b := range src {", "	dst[2*i], dst[2*i+1] = nf4Values[b>>4] * absmax, nf4Values[b&15] * absmax", "}, "+rest)
	l.whole = true
	absmax := l.scalar("absmax")
	values := table("nf4", func(i int) uint32 { return math.Float32bits(nf4Values[i]) })
	low, high := l.v.reg(), l.v.reg()
	VMOVUPS(values, low)
	if v.lanes == 8 {
		VMOVUPS(values.Offset(32), high)
	}
	half := GP64()
	l.run(4, func(number int) {
		if number == 0 {
			MOVQ(l.at, half)
			SHRQ(Imm(1), half)
		}
		codes, second := l.v.reg(), l.v.reg()
		VPMOVZXBQ(Mem{Base: l.base["src"], Index: half, Scale: 1, Disp: l.offset * l.v.lanes / 2}, codes)
		VPSLLQ(Imm(32), codes, second)
		VPSRLQ(Imm(4), codes, codes)
		if v.lanes == 16 {
			VPORQ(codes, second, codes)
			VPERMPS(low, codes, codes)
		} else {
			VPOR(codes, second, codes)
			of := l.v.reg()
			VPERMPS(low, codes, second)
			VPERMPS(high, codes, of)
			VPSLLD(Imm(28), codes, codes) // to the sign: the high half of the values
			VBLENDVPS(codes, of, second, codes)
		}
		VMULPS(absmax, codes, codes)
		l.store(codes, "dst")
	})
	l.end()
}
