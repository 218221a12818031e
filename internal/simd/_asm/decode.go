package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// decoder finds what codes stand for by arithmetic, which takes less than a gather from the table. Of a distance d
// from the code of 0 in the map with a sign, and of d+1 in that without, take f = 2^e * m with 1 <= m < 2, which is
// half more. The numbers of a decade, the first from 10^-7 on, are those of one e, and each is (9m-8) times where its
// decade begins, 10^(e-7) or 10^(e-8). That power is a sum of two float32, so that the product has the bits of one
// that is rounded once, as the table's are.
type decoder struct {
	l      *loop
	signed bool
	hi, lo reg.VecVirtual // the powers by the lowest bits of the exponent of f
}

// newDecoder loads the powers.
func newDecoder(l *loop, signed bool) *decoder {
	name, zero, first := "decodeUnsigned", 15, 1 // e is 0 where a code means 0, and the biased exponent ends with 15
	if signed {
		name, zero, first = "decodeSigned", 14, 0
	}
	power := func(i int) float64 {
		e := i&7 + 1
		if signed && e == 8 {
			e = 0
		}
		switch {
		case i == zero:
			return 0
		case e == first+7: // only 1, with m half more than 1
			return 1 / (1 + 9*math.Pow(2, float64(-1-e)))
		}
		return math.Pow10(e - first - 7)
	}
	d := &decoder{l: l, signed: signed, hi: l.v.reg(), lo: l.v.reg()}
	VMOVUPS(table(name+"Hi", func(i int) uint32 { return math.Float32bits(float32(power(i))) }), d.hi)
	VMOVUPS(table(name+"Lo", func(i int) uint32 {
		return math.Float32bits(float32(power(i) - float64(float32(power(i)))))
	}), d.lo)
	if signed {
		l.hold(127, 1<<31)
		l.keep(0.5)
	} else {
		l.keep(1.5)
	}
	l.hold(0x7fffff, 0x3f800000)
	l.keep(9, 8)
	return d
}

// load reads the codes of the next vector and returns what they stand for, times scale.
func (d *decoder) load(name string, scale Op) reg.VecVirtual {
	l, lanes := d.l, d.l.v.lanes
	codes, f, m, r := l.v.reg(), l.v.reg(), l.v.reg(), l.v.reg()
	VPMOVZXBD(Mem{Base: l.base[name], Index: l.at, Scale: 1, Disp: l.offset * lanes}, codes)
	half := float32(1.5)
	if d.signed {
		half = 0.5
		VPSUBD(l.word(127), codes, codes)
		VPABSD(codes, f)
		VCVTDQ2PS(f, f)
	} else {
		VCVTDQ2PS(codes, f)
	}
	VADDPS(l.constant(half), f, f)
	if lanes == 16 {
		const andOr = 0xea
		VMOVDQA32(f, m)
		VPTERNLOGD(Imm(andOr), l.word(0x3f800000), l.word(0x7fffff), m)
	} else {
		VPAND(l.word(0x7fffff), f, m)
		VPOR(l.word(0x3f800000), m, m)
	}
	VPSRLD(Imm(23), f, f)
	VPERMPS(d.lo, f, r)
	VPERMPS(d.hi, f, f)
	if lanes == 16 {
		VFMSUB213PS(l.constant(8), l.constant(9), m)
	} else {
		VMULPS(l.constant(9), m, m) // exact, as the difference is
		VSUBPS(l.constant(8), m, m)
	}
	VMULPS(m, r, r)
	VFMADD231PS(f, m, r)
	if lanes == 8 { // where eight powers have none for 0
		none := l.v.reg()
		zero(none)
		VPCMPEQD(none, codes, none)
		VPANDN(r, none, r)
	}
	VMULPS(scale, r, r)
	if d.signed {
		l.signOf(codes, r)
	}
	return r
}

// signOf makes r negative where x is.
func (l *loop) signOf(x, r reg.VecVirtual) {
	if l.v.lanes == 16 {
		const xorOfAnd = 0x78
		VPTERNLOGD(Imm(xorOfAnd), l.word(1<<31), x, r)
		return
	}
	VPAND(l.word(1<<31), x, x)
	VPXOR(x, r, r)
}

// decodeCodes emits what codes stand for.
func decodeCodes(v isa, signed bool) {
	name := "decodeUnsigned"
	if signed {
		name = "decodeSigned"
	}
	l := begin(v, name, "func(dst []float32, src []uint8, scale float32)", []string{"dst", "src"},
		"for i := range dst {", "	dst[i] = scale * values[src[i]]", "}, len(dst) a multiple of 16")
	l.whole = true
	scale, d := l.scalar("scale"), newDecoder(l, signed)
	l.run(2, func(int) { l.store(d.load("src", scale), "dst") })
	l.end()
}
