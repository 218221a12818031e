package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halves emits the conversions of 16-bit numbers. AVX2 has no masks of 16 bits: there
// the functions convert whole vectors, and Go what is left.
func halves(v isa) {
	const widen, narrow = "func(dst []float32, src []uint16)", "func(dst []uint16, src []float32)"
	names := []string{"dst", "src"}
	rest := ""
	if v.lanes == 8 {
		rest = ", len(dst) a multiple of 8"
	}
	start := func(name, signature, format string) *loop {
		l := begin(v, name, signature, names, "for i := range dst {", "	dst[i] = "+format+"(src[i])", "}"+rest)
		l.whole = v.lanes == 8
		return l
	}

	l := start("fromBFloat16", widen, "float32")
	l.run(1, func(int) {
		r := l.load16("src", VPMOVZXWD, VPMOVZXWD_Z)
		VPSLLD(Imm(16), r, r)
		l.store(r, "dst")
	})
	l.end()

	l = start("fromFloat16", widen, "float32")
	l.run(1, func(int) { l.store(l.load16("src", VCVTPH2PS, VCVTPH2PS_Z), "dst") })
	l.end()

	l = start("toFloat16", narrow, "float16")
	l.run(1, func(int) {
		const nearestEven = 0
		r := l.load("src")
		if l.masked {
			VCVTPS2PH(Imm(nearestEven), r, l.mask, l.mem16("dst"))
		} else {
			VCVTPS2PH(Imm(nearestEven), r, l.mem16("dst"))
		}
	})
	l.end()

	l = start("toBFloat16", narrow, "bfloat16")
	l.narrow16(0)
	l.run(1, func(int) { l.storeBFloat16(l.roundBFloat16(l.load("src"))) })
	l.end()
}

func (l *loop) mem16(name string) Mem {
	return Mem{Base: l.base[name], Index: l.at, Scale: 2, Disp: l.offset * l.v.bytes() / 2}
}

// load16 reads and widens the next vector of 16-bit numbers.
func (l *loop) load16(name string, plain func(...Op), masked func(m, k, r Op)) reg.VecVirtual {
	r := l.v.reg()
	if l.masked {
		masked(l.mem16(name), l.mask, r)
	} else {
		plain(l.mem16(name), r)
	}
	return r
}

// roundBFloat16 rounds to nearest even into the lower halves: it adds just under half a
// unit, or half of one if the last bit that stays is odd. A NaN gets its quiet bit
// instead, since adding could make it infinite.
func (l *loop) roundBFloat16(x reg.VecVirtual) reg.VecVirtual {
	v := l.v
	high, u := v.reg(), v.reg()
	VPSRLD(Imm(16), x, high)
	and, or := VANDPS, VORPS
	if v.lanes == 16 {
		and, or = VPANDD, VPORD
	}
	and(bits(1), high, u)
	VPADDD(bits(0x7fff), u, u)
	VPADDD(x, u, u)
	VPSRLD(Imm(16), u, u)
	or(bits(0x40), high, high)
	const unordered = 3
	if v.lanes == 16 {
		k := K()
		VCMPPS(Imm(unordered), x, x, k)
		VPBLENDMD(high, u, k, u)
	} else {
		VCMPPS(Imm(unordered), x, x, x)
		VPBLENDVB(x, high, u, u)
	}
	return u
}

// narrow16 is to be called before a loop with storeBFloat16. It says which half of the lanes is meant, with AVX-512;
// with AVX2 it is the lower, and the other is 0.
func (l *loop) narrow16(which uint32) {
	if l.v.lanes == 16 {
		l.order = l.fix(fmt.Sprintf("everySecond%d", which), func(i int) uint32 {
			return uint32(4*i) + which | (uint32(4*i+2)+which)<<16
		})
	}
}

// storeBFloat16 writes one half of each lane.
func (l *loop) storeBFloat16(u reg.VecVirtual) {
	switch {
	case l.masked:
		VPMOVDW(u, l.mask, l.mem16("dst"))
	case l.v.lanes == 16:
		VPERMW(u, l.order, u) // VPMOVDW takes several times as long on a Zen 4
		VMOVUPS(u.AsY(), l.mem16("dst"))
	default:
		high := XMM()
		VEXTRACTI128(Imm(1), u, high)
		VPACKUSDW(high, u.AsX(), high)
		VMOVDQU(high, l.mem16("dst"))
	}
}
