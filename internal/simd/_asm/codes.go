package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codes emits the loops of Codes, for whole vectors, and the largest magnitude.
func codes(v isa) {
	for _, signed := range []bool{true, false} {
		decodeCodes(v, signed)
		encodeCodes(v, signed)
	}
	if v.lanes == 16 {
		adamW8(v)
	}
	roundRandomly(v)

	l := begin(v, "maxAbs", "func(x []float32) float32", []string{"x"},
		"m := 0", "for _, v := range x {", "	m = max(m, abs(v))", "}", "return m")
	s := l.sums(2)
	l.run(2, func(number int) {
		r := l.load("x")
		l.magnitude(r, r)
		VMAXPS(s[number], r, s[number])
	})
	l.finish(append(s, l.sums(2)...), VMAXPS)
}

// roundRandomly emits the rounding to bfloat16 by random numbers that follow from the index, which is multiplied step
// by step.
func roundRandomly(v isa) {
	const by = 0x9e3779b1
	l := begin(v, "roundRandomly", "func(dst []uint16, src []float32, key, from uint32)", []string{"dst", "src"},
		"for i := range dst {", "	dst[i] = roundAt(src[i], key, from+i)", "}, len(dst) a multiple of 16")
	l.whole = true
	l.narrow16(1)
	key, product, next := l.scalar("key"), l.scalar("from"), bits(uint32(by*v.lanes&math.MaxUint32))
	VPADDD(table("iota", func(i int) uint32 { return uint32(i) }), product, product)
	VPMULLD(bits(by), product, product)
	l.run(1, func(int) {
		PREFETCHT0(Mem{Base: l.base["dst"], Index: l.at, Scale: 2, Disp: 2 * ahead})
		h, t, x := v.reg(), v.reg(), l.load("src")
		l.xor(product, key, h)
		for _, step := range []struct {
			shift uint8
			by    uint32
		}{{16, 0x85ebca6b}, {13, 0xc2b2ae35}} {
			VPSRLD(Imm(uint64(step.shift)), h, t)
			l.xor(t, h, h)
			VPMULLD(bits(step.by), h, h)
		}
		VPSRLD(Imm(16), h, h)
		VPADDD(x, h, h)
		l.finiteOr(x, h)
		if v.lanes == 8 {
			VPSRLD(Imm(16), h, h)
		}
		l.storeBFloat16(h)
		VPADDD(next, product, product)
	})
	l.end()
}

// finiteOr puts x into the lanes of r whose exponent is all ones.
func (l *loop) finiteOr(x, r reg.VecVirtual) {
	t := l.v.reg()
	l.and(bits(0x7f800000), r, t)
	if l.v.lanes == 16 {
		k := K()
		const equal = 0
		VPCMPD(Imm(equal), bits(0x7f800000), t, k)
		VPBLENDMD(x, r, k, r)
		return
	}
	VPCMPEQD(bits(0x7f800000), t, t)
	VBLENDVPS(t, x, r, r)
}

func (l *loop) and(a Op, b, r reg.VecVirtual) {
	if l.v.lanes == 16 {
		VPANDD(a, b, r)
		return
	}
	VPAND(a, b, r)
}

func (l *loop) xor(a, b, r reg.VecVirtual) {
	if l.v.lanes == 16 {
		VPXORD(a, b, r)
		return
	}
	VPXOR(a, b, r)
}

// magnitude clears the signs.
func (l *loop) magnitude(x, r reg.VecVirtual) {
	if l.v.lanes == 16 {
		VPANDD(l.word(0x7fffffff), x, r)
		return
	}
	VANDPS(l.word(0x7fffffff), x, r)
}

// gather reads the words at what a vector of indices says.
func (l *loop) gather(from Mem, r reg.VecVirtual) {
	zero(r) // so that it depends on nothing before
	if l.v.lanes == 16 {
		k := K()
		KXNORW(k, k, k)
		VGATHERDPS(from, k, r)
		return
	}
	all := l.v.reg()
	VPCMPEQD(all, all, all)
	VGATHERDPS(all, from, r)
}

// countAbove adds one to n where x is above the border, both whole numbers.
func (l *loop) countAbove(x, border, n reg.VecVirtual) {
	if l.v.lanes == 16 {
		const greater = 6
		k := K()
		VPCMPD(Imm(greater), border, x, k)
		VPADDD(l.word(1), n, k, n)
		return
	}
	VPCMPGTD(border, x, border)
	VPSUBD(border, n, n)
}

// narrow8 is to be called before a loop with store8. It says which byte of the lanes is meant, with AVX-512;
// with AVX2 it is the lowest, and the only one.
func (l *loop) narrow8(which uint32) {
	if l.v.lanes == 16 {
		l.byte = l.fix("oneByte", func(i int) uint32 {
			return [4]uint32{0x0c080400 + which*0x01010101, 1 << 31, 1 << 31, 1 << 31}[i%4]
		})
		l.order = l.fix("everyFourth", func(i int) uint32 { return uint32(4 * i & 15) })
	}
}

// store8 writes one byte of each lane.
func (l *loop) store8(n reg.VecVirtual, name string) {
	to := Mem{Base: l.base[name], Index: l.at, Scale: 1, Disp: l.offset * l.v.lanes}
	if l.v.lanes == 16 { // VPMOVDB takes several times as long on a Zen 4
		VPSHUFB(l.byte, n, n)
		VPERMD(n, l.order, n)
		VMOVUPS(n.AsX(), to)
		return
	}
	high := XMM()
	VEXTRACTI128(Imm(1), n, high)
	VPACKUSDW(high, n.AsX(), high)
	VPACKUSWB(high, high, high)
	VMOVQ(high, to)
}
