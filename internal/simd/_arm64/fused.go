package main

// fused emits the passes of whole operations: all that happens to an element while it is
// in a register.
func fused() []*function {
	return []*function{scaleMul(), normGrad(), rotateHalves(), rotatePairs(), softmaxGrad(), adamW()}
}

func scaleMul() *function {
	l := begin("scaleMul", "func(dst, x, w []float32, s float32)", []string{"dst", "x", "w"},
		"for i := range dst {", "	dst[i] = s * x[i] * w[i]", "}")
	s := l.scalar("s")
	l.run(4, func(int) {
		r := l.load("x")
		l.do(fmul, r, s, r)
		l.do(fmul, r, r, l.load("w"))
		l.store(r, "dst")
	})
	return l.end()
}

func normGrad() *function {
	l := begin("normGrad", "func(dx, dw, dy, x, w []float32, rstd, mean float32)", []string{"dx", "dw", "dy", "x", "w"},
		"for i := range dx {", "	n := rstd * x[i]", "	dw[i] += float32(dy[i] * n)",
		"	dx[i] = rstd * (float32(dy[i]*w[i]) - float32(n*mean))", "}")
	rstd, mean := l.scalar("rstd"), l.scalar("mean")
	l.run(4, func(int) {
		n, dy, dw := l.load("x"), l.load("dy"), l.vec()
		l.do(fmul, n, rstd, n)
		l.do(fmul, dw, dy, n)
		l.do(fadd, dw, l.load("dw"), dw)
		l.store(dw, "dw")
		l.do(fmul, dy, dy, l.load("w"))
		l.do(fmul, n, n, mean)
		l.do(fsub, dy, dy, n)
		l.do(fmul, dy, rstd, dy)
		l.store(dy, "dx")
	})
	return l.end()
}

func rotateHalves() *function {
	l := begin("rotateHalves", "func(lo, hi, a, b, cos, sin []float32)", []string{"lo", "hi", "a", "b", "cos", "sin"},
		"for i := range lo {", "	lo[i], hi[i] = float32(a[i]*cos[i])-float32(b[i]*sin[i]), "+
			"float32(b[i]*cos[i])+float32(a[i]*sin[i])", "}")
	l.run(4, func(int) {
		a, b := l.rotate(l.load("a"), l.load("b"), l.load("cos"), l.load("sin"))
		l.store(a, "lo")
		l.store(b, "hi")
	})
	return l.end()
}

// rotatePairs emits the rotation of neighbours, which loads and stores take apart and
// put together.
func rotatePairs() *function {
	l := begin("rotatePairs", "func(cos, sin, dst, x []float32)", []string{"cos", "sin", "dst", "x"},
		"for i := range cos {", "	a, b := x[2*i], x[2*i+1]",
		"	dst[2*i], dst[2*i+1] = float32(a*cos[i])-float32(b*sin[i]), float32(b*cos[i])+float32(a*sin[i])", "}")
	l.element["dst"], l.element["x"] = 8, 8
	l.run(1, func(int) {
		a, b := l.vec(), l.vec()
		if l.single {
			l.ins("FLDPS", l.mem("x"), pair(a, b))
		} else {
			l.ins("VLD2", l.mem("x"), list(a, b))
		}
		x, y := l.rotate(a, b, l.load("cos"), l.load("sin"))
		if l.single {
			l.ins("FSTPS", pair(x, y), l.mem("dst"))
		} else {
			l.ins("VST2", list(x, y), l.mem("dst"))
		}
	})
	return l.end()
}

// rotate emits the rotation of (a, b), to registers that follow each other.
func (l *loop) rotate(a, b, cos, sin vec) (x, y vec) {
	x, y = l.vec(), l.vec()
	l.do(fmul, x, a, cos)
	l.do(fmul, y, b, sin)
	l.do(fsub, x, x, y)
	l.do(fmul, y, b, cos)
	l.do(fmul, a, a, sin)
	l.do(fadd, y, y, a)
	return x, y
}

func softmaxGrad() *function {
	l := begin("softmaxGrad", "func(dst, p, dp []float32, dot, scale float32)", []string{"dst", "p", "dp"},
		"for i := range dst {", "	dst[i] = p[i] * (dp[i] - dot) * scale", "}")
	dot, scale := l.scalar("dot"), l.scalar("scale")
	l.run(4, func(int) {
		r := l.load("dp")
		l.do(fsub, r, r, dot)
		l.do(fmul, r, l.load("p"), r)
		l.do(fmul, r, r, scale)
		l.store(r, "dst")
	})
	return l.end()
}

// adamW emits an optimizer step, operation by operation as the Go loop has them, so that
// it gives the same bits.
func adamW() *function {
	l := begin("adamW", "func(p, g, m, v []float32, scale, keep, beta1, new1, beta2, new2, step, eps float32)",
		[]string{"p", "g", "m", "v"},
		"for i := range p {", "	x := scale * g[i]", "	m[i] = float32(beta1*m[i]) + float32(new1*x)",
		"	v[i] = float32(beta2*v[i]) + float32(new2*x*x)",
		"	p[i] = float32(keep*p[i]) - step*m[i]/(sqrt(v[i])+eps)", "}")
	scale, keep, beta1, new1 := l.scalar("scale"), l.scalar("keep"), l.scalar("beta1"), l.scalar("new1")
	beta2, new2 := l.scalar("beta2"), l.scalar("new2")
	step, eps := l.scalar("step"), l.scalar("eps")
	l.run(2, func(int) {
		x, m, v, p, t := l.load("g"), l.load("m"), l.load("v"), l.load("p"), l.vec()
		l.do(fmul, x, scale, x)
		l.do(fmul, m, beta1, m)
		l.do(fmul, t, new1, x)
		l.do(fadd, m, m, t)
		l.store(m, "m")
		l.do(fmul, t, new2, x)
		l.do(fmul, t, t, x)
		l.do(fmul, v, beta2, v)
		l.do(fadd, v, v, t)
		l.store(v, "v")
		l.do(fsqrt, x, v)
		l.do(fadd, x, x, eps)
		l.do(fmul, t, step, m)
		l.do(fdiv, t, t, x)
		l.do(fmul, p, keep, p)
		l.do(fsub, p, p, t)
		l.store(p, "p")
	})
	return l.end()
}
