package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	log2e = 1 / math.Ln2
	ln2Hi = 0x1.62e4p-1 // so few bits that n*ln2Hi is exact
	ln2Lo = math.Ln2 - ln2Hi
)

var (
	expLimits = []float32{89, -104}
	expSeries = []float32{1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1}
)

// beginExp begins a function that uses exp.
func beginExp(v isa, name, signature string, slices []string, doc ...string) *loop {
	l := begin(v, name, signature, slices, doc...)
	l.keep(log2e, ln2Hi, ln2Lo)
	l.keep(expLimits...)
	l.keep(expSeries[:len(expSeries)-1]...) // 1 is in it twice
	return l
}

// exp emits x = e^x: with n the integer nearest to x/ln 2, it is 2^n times the Taylor
// series of e^r at r = x - n ln 2. Beyond the limits the result is 0 or infinite, and a
// NaN stays one: that is why x is the operand that the comparisons return then.
func (l *loop) exp(x reg.VecVirtual) {
	v := l.v
	limit, n, p := v.reg(), v.reg(), v.reg()
	VMOVUPS(l.constant(expLimits[0]), limit)
	VMINPS(x, limit, x)
	VMOVUPS(l.constant(expLimits[1]), limit)
	VMAXPS(x, limit, x)
	VMULPS(l.constant(log2e), x, n)
	const nearest = 8 // without raising the inexact exception
	if v.lanes == 16 {
		VRNDSCALEPS(Imm(nearest), n, n)
	} else {
		VROUNDPS(Imm(nearest), n, n)
	}
	VFNMADD231PS(l.constant(ln2Hi), n, x)
	VFNMADD231PS(l.constant(ln2Lo), n, x)
	VMOVUPS(l.constant(expSeries[0]), p)
	for _, c := range expSeries[1:] {
		VFMADD213PS(l.constant(c), x, p)
	}
	if v.lanes == 16 {
		VSCALEFPS(n, p, x)
		return
	}
	// In two steps, since 2^n itself may not be a float32.
	half := v.reg()
	VCVTPS2DQ(n, n)
	VPSRAD(Imm(1), n, half)
	VPSUBD(half, n, n)
	for _, e := range []reg.VecVirtual{half, n} {
		VPADDD(bits(127), e, e)
		VPSLLD(Imm(23), e, e)
		VMULPS(e, p, p)
	}
	VMOVAPS(p, x)
}

// sigmoid emits s = 1/(1+e^-x).
func (l *loop) sigmoid(x reg.VecVirtual) reg.VecVirtual {
	s, one := l.v.reg(), l.v.reg()
	zero(s)
	VSUBPS(x, s, s)
	l.exp(s)
	VMOVUPS(l.constant(1), one)
	VADDPS(one, s, s)
	VDIVPS(s, one, s)
	return s
}

// exponentials emits functions built on exp.
func exponentials(v isa) {
	l := beginExp(v, "expSum", "func(dst, x []float32, scale, shift float32) float32", []string{"dst", "x"},
		"var sum [4][lanes]float32", "for i := range dst {", "	dst[i] = exp(fma(scale, x[i], -shift))",
		"	sum[i/lanes%4][i%lanes] += dst[i]", "}", "return the sum of all in sum")
	scale, shift, none := l.scalar("scale"), l.scalar("shift"), v.reg()
	zero(none)
	s := l.sums(4)
	l.run(4, func(number int) {
		r := l.load("x")
		VFMSUB213PS(shift, scale, r)
		l.exp(r)
		l.store(r, "dst")
		l.elseTake(none, r)
		VADDPS(r, s[number], s[number])
	})
	l.finish(s, VADDPS)

	l = beginExp(v, "sigmoid", "func(dst, x []float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = 1 / (1 + exp(-x[i]))", "}")
	l.run(1, func(int) { l.store(l.sigmoid(l.load("x")), "dst") })
	l.end()

	l = beginExp(v, "silu", "func(dst, x []float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = x[i] * sigmoid(x[i])", "}")
	l.run(1, func(int) {
		x := l.load("x")
		s := l.sigmoid(x)
		VMULPS(x, s, s)
		l.store(s, "dst")
	})
	l.end()

	l = beginExp(v, "siluGrad", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"},
		"for i := range dx {", "	s := sigmoid(x[i])", "	dx[i] = dy[i] * (s + x[i]*s*(1-s))", "}")
	l.run(1, func(int) {
		s, _ := l.siluGrad(l.load("x"))
		VMULPS(l.load("dy"), s, s)
		l.store(s, "dx")
	})
	l.end()
}

// gated emits the passes of a gated activation.
func gated(v isa) {
	l := beginExp(v, "swiglu", "func(dst, gate, up []float32)", []string{"dst", "gate", "up"},
		"for i := range dst {", "	dst[i] = gate[i] * sigmoid(gate[i]) * up[i]", "}")
	l.run(1, func(int) {
		g := l.load("gate")
		s := l.sigmoid(g)
		VMULPS(g, s, s)
		VMULPS(l.load("up"), s, s)
		l.store(s, "dst")
	})
	l.end()

	l = beginExp(v, "swigluGrad", "func(dgate, dup, dy, gate, up []float32)",
		[]string{"dgate", "dup", "dy", "gate", "up"},
		"for i := range dgate {", "	g, s := gate[i], sigmoid(gate[i])", "	silu, d, u := g*s, dy[i], up[i]",
		"	dup[i] = d * silu", "	dgate[i] = d * u * (s + silu*(1-s))", "}")
	l.runApart("dup", func() reg.VecVirtual {
		slope, silu := l.siluGrad(l.load("gate"))
		d, u := l.load("dy"), l.load("up")
		VMULPS(d, u, u)
		VMULPS(u, slope, slope)
		VMULPS(d, silu, silu)
		l.store(slope, "dgate")
		return silu
	})
	l.end()
}

// siluGrad emits silu = x*s and its derivative s + silu*(1-s), where s is sigmoid(x).
func (l *loop) siluGrad(x reg.VecVirtual) (slope, silu reg.VecVirtual) {
	s, rest := l.sigmoid(x), l.v.reg()
	VMULPS(s, x, x)
	VMOVUPS(l.constant(1), rest)
	VSUBPS(s, rest, rest)
	VMULPS(x, rest, rest)
	VADDPS(rest, s, s)
	return s, x
}
