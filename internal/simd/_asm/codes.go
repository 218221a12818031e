package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codes emits the loops of Codes, for whole vectors, and the largest magnitude. The tables lie in the
// cache of the first level.
func codes(v isa) {
	l := begin(v, "decodeCodes", "func(dst []float32, src []uint8, values *float32, scale float32)", []string{"dst", "src"},
		"for i := range dst {", "	dst[i] = scale * values[src[i]]", "}, len(dst) a multiple of 16")
	l.whole = true
	scale := l.scalar("scale")
	values := Load(Param("values"), GP64())
	l.run(2, func(int) {
		at, r := v.reg(), v.reg()
		VPMOVZXBD(Mem{Base: l.base["src"], Index: l.at, Scale: 1, Disp: l.offset * v.lanes}, at)
		l.gather(values, at, r)
		VMULPS(scale, r, r)
		l.store(r, "dst")
	})
	l.end()

	for _, signed := range []bool{true, false} {
		encodeCodes(v, signed)
	}

	l = begin(v, "maxAbs", "func(x []float32) float32", []string{"x"},
		"m := 0", "for _, v := range x {", "	m = max(m, abs(v))", "}", "return m")
	s := l.sums(2)
	l.run(2, func(number int) {
		r := l.load("x")
		l.magnitude(r, r)
		VMAXPS(s[number], r, s[number])
	})
	l.finish(append(s, l.sums(2)...), VMAXPS)
}

// encodeCodes emits the nearest codes: those of unsigned begin with 0, those of signed have it at 127.
func encodeCodes(v isa, signed bool) {
	name, zeroAt := "encodeUnsigned", "0"
	if signed {
		name, zeroAt = "encodeSigned", "127"
	}
	l := begin(v, name, "func(dst []uint8, x []float32, least, borders *float32, scale float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = nearest(x[i] / scale)", "}, len(dst) a multiple of 16, zero at "+zeroAt)
	l.whole = true
	scale := l.scalar("scale")
	least, borders := Load(Param("least"), GP64()), Load(Param("borders"), GP64())
	l.run(1, func(int) {
		q := l.load("x")
		VDIVPS(scale, q, q)
		size, key, n, border := v.reg(), v.reg(), v.reg(), v.reg()
		l.magnitude(q, size)
		VPSRLD(Imm(16), size, key)
		VPMAXUD(bits(0x3380), key, key)
		VPMINUD(bits(0x3f80), key, key)
		VPSUBD(bits(0x3380), key, key)
		l.gather(least, key, n)
		l.gather(borders, n, border)
		l.countAbove(size, border, n)
		if signed {
			l.withSign(q, n)
		}
		l.store8(n, "dst")
	})
	l.end()
}

// magnitude clears the signs.
func (l *loop) magnitude(x, r reg.VecVirtual) {
	if l.v.lanes == 16 {
		VPANDD(bits(0x7fffffff), x, r)
		return
	}
	VANDPS(bits(0x7fffffff), x, r)
}

// gather reads the words of a table at indices.
func (l *loop) gather(table Register, at, r reg.VecVirtual) {
	from := Mem{Base: table, Index: at, Scale: 4}
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

// countAbove adds one to n where x is above the border.
func (l *loop) countAbove(x, border, n reg.VecVirtual) {
	const greater = 0x1e
	if l.v.lanes == 16 {
		k := K()
		VCMPPS(Imm(greater), border, x, k)
		VPADDD(bits(1), n, k, n)
		return
	}
	VCMPPS(Imm(greater), border, x, border)
	VPSUBD(border, n, n)
}

// withSign makes codes of the distances n from the one of 0: to the other side, by at least one, where
// q is negative.
func (l *loop) withSign(q, n reg.VecVirtual) {
	const less = 0x11
	none, below := l.v.reg(), l.v.reg()
	zero(none)
	VPMAXSD(bits(1), n, below)
	VPMINSD(bits(127), below, below)
	VPSUBD(below, none, below)
	if l.v.lanes == 16 {
		k := K()
		VCMPPS(Imm(less), none, q, k)
		VPBLENDMD(below, n, k, n)
	} else {
		VCMPPS(Imm(less), none, q, none)
		VBLENDVPS(none, below, n, n)
	}
	VPADDD(bits(127), n, n)
}

// store8 writes the lowest bytes of the lanes.
func (l *loop) store8(n reg.VecVirtual, name string) {
	to := Mem{Base: l.base[name], Index: l.at, Scale: 1, Disp: l.offset * l.v.lanes}
	if l.v.lanes == 16 {
		VPMOVDB(n, to)
		return
	}
	high := XMM()
	VEXTRACTI128(Imm(1), n, high)
	VPACKUSDW(high, n.AsX(), high)
	VPACKUSWB(high, high, high)
	VMOVQ(high, to)
}
