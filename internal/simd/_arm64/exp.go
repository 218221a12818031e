package main

import "math"

const (
	log2e = 1 / math.Ln2
	ln2Hi = 0x1.62e4p-1 // so few bits that n*ln2Hi is exact
	ln2Lo = math.Ln2 - ln2Hi
	// Adding magic leaves no bits for a fraction, so it rounds to an integer, which then
	// is in the lowest bits.
	magic = 3 << 22
)

var (
	expLimits = []float32{89, -104}
	expSeries = []float32{1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1}
)

// beginExp begins a function that uses exp.
func beginExp(name, signature string, slices []string, doc ...string) *loop {
	l := begin(name, signature, slices, doc...)
	for _, x := range append([]float32{log2e, ln2Hi, ln2Lo, magic, expLimits[0], expLimits[1]}, expSeries...) {
		l.constant(x)
	}
	return l
}

// exp emits x = e^x: with n the integer nearest to x/ln 2, it is 2^n times the Taylor
// series of e^r at r = x - n ln 2. Beyond the limits the result is 0 or infinite, and a
// NaN stays one: the comparisons return it.
func (l *loop) exp(x vec) {
	mark := l.vectors
	n, whole, p, q := l.vec(), l.vec(), l.vec(), l.vec()
	l.do(fmin, x, x, l.constant(expLimits[0]))
	l.do(fmax, x, x, l.constant(expLimits[1]))
	l.move(n, l.constant(magic))
	l.do(fmla, n, x, l.constant(log2e))
	l.do(fsub, whole, n, l.constant(magic))
	l.do(fmls, x, whole, l.constant(ln2Hi))
	l.do(fmls, x, whole, l.constant(ln2Lo))
	series := l.constant(expSeries[0])
	for _, c := range expSeries[1:] { // an instruction adds to a register, so that the sum moves on
		l.move(p, l.constant(c))
		l.do(fmla, p, series, x)
		series, p, q = p, q, p
	}
	// In two steps, since 2^n itself may not be a float32. The bits of 1 are those of 2^0.
	half := whole
	l.do(sub, n, n, l.constant(magic))
	l.do(sshr(1), half, n)
	l.do(sub, n, n, half)
	for _, e := range []vec{half, n} {
		l.do(shl(23), e, e)
		l.do(add, e, e, l.constant(1))
	}
	l.do(fmul, series, series, half)
	l.do(fmul, x, series, n)
	l.release(mark)
}

// sigmoid emits s = 1/(1+e^-x).
func (l *loop) sigmoid(x vec) (s vec) {
	s = l.vec()
	l.do(fneg, s, x)
	l.exp(s)
	l.do(fadd, s, s, l.constant(1))
	l.do(fdiv, s, l.constant(1), s)
	return s
}

// exponentials emits functions built on exp.
func exponentials() []*function {
	all := []*function{expSum()}
	l := beginExp("sigmoid", "func(dst, x []float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = 1 / (1 + exp(-x[i]))", "}")
	l.run(1, func(int) { l.store(l.sigmoid(l.load("x")), "dst") })
	all = append(all, l.end())

	l = beginExp("silu", "func(dst, x []float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = x[i] * sigmoid(x[i])", "}")
	l.run(1, func(int) {
		x := l.load("x")
		s := l.sigmoid(x)
		l.do(fmul, s, x, s)
		l.store(s, "dst")
	})
	all = append(all, l.end())

	l = beginExp("siluGrad", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"},
		"for i := range dx {", "	s := sigmoid(x[i])", "	dx[i] = dy[i] * (s + x[i]*s*(1-s))", "}")
	l.run(1, func(int) {
		s, _ := l.siluGrad(l.load("x"))
		l.do(fmul, s, l.load("dy"), s)
		l.store(s, "dx")
	})
	return append(all, l.end())
}

func expSum() *function {
	l := beginExp("expSum", "func(dst, x []float32, scale, shift float32) float32", []string{"dst", "x"},
		"var sum [4]float32", "for i := range dst {", "	dst[i] = exp(fma(scale, x[i], -shift))",
		"	sum[i%4] += dst[i]", "}", "return the sum of all in sum")
	scale, shift := l.scalar("scale"), l.scalar("shift")
	l.do(fneg, shift, shift)
	s := l.sums(1)[0]
	l.run(1, func(int) {
		r := l.vec()
		l.move(r, shift)
		l.do(fmla, r, l.load("x"), scale)
		l.exp(r)
		if l.single { // the others have e^-shift
			l.ins("FMOVS", r.part(), r.part())
		}
		l.store(r, "dst")
		l.do(fadd, s, s, r)
	})
	l.do(faddp, s, s, s)
	l.do(addPair, s, s)
	l.ins("FMOVS", s.part(), l.at("ret", ""))
	return l.end()
}

// gated emits the passes of a gated activation.
func gated() []*function {
	l := beginExp("swiglu", "func(dst, gate, up []float32)", []string{"dst", "gate", "up"},
		"for i := range dst {", "	dst[i] = gate[i] * sigmoid(gate[i]) * up[i]", "}")
	l.run(1, func(int) {
		g := l.load("gate")
		s := l.sigmoid(g)
		l.do(fmul, s, g, s)
		l.do(fmul, s, s, l.load("up"))
		l.store(s, "dst")
	})
	forward := l.end()

	l = beginExp("swigluGrad", "func(dgate, dup, dy, gate, up []float32)", []string{"dgate", "dup", "dy", "gate", "up"},
		"for i := range dgate {", "	g, s := gate[i], sigmoid(gate[i])", "	silu, d, u := g*s, dy[i], up[i]",
		"	dup[i] = d * silu", "	dgate[i] = d * u * (s + silu*(1-s))", "}")
	l.run(1, func(int) {
		slope, silu := l.siluGrad(l.load("gate"))
		d, u := l.load("dy"), l.load("up")
		l.do(fmul, u, d, u)
		l.do(fmul, slope, u, slope)
		l.do(fmul, silu, d, silu)
		l.store(silu, "dup")
		l.store(slope, "dgate")
	})
	return []*function{forward, l.end()}
}

// siluGrad emits silu = x*s and its derivative s + silu*(1-s), where s is sigmoid(x).
func (l *loop) siluGrad(x vec) (slope, silu vec) {
	s, rest := l.sigmoid(x), l.vec()
	l.do(fmul, x, x, s)
	l.do(fsub, rest, l.constant(1), s)
	l.do(fmul, rest, x, rest)
	l.do(fadd, s, s, rest)
	return s, x
}
