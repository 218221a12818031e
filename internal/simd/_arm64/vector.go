package main

// elementwise emits functions that read and write each element once.
func elementwise() []*function {
	var all []*function
	l := begin("add", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] = a[i] + b[i]", "}")
	l.run(4, func(int) {
		r := l.load("a")
		l.do(fadd, r, r, l.load("b"))
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = begin("mul", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] = a[i] * b[i]", "}")
	l.run(4, func(int) {
		r := l.load("a")
		l.do(fmul, r, r, l.load("b"))
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = begin("mulAdd", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] += float32(a[i] * b[i])", "}")
	l.run(4, func(int) {
		r := l.load("a")
		l.do(fmul, r, r, l.load("b"))
		l.do(fadd, r, l.load("dst"), r)
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = begin("scale", "func(dst, x []float32, s float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = s * x[i]", "}")
	s := l.scalar("s")
	l.run(4, func(int) {
		r := l.load("x")
		l.do(fmul, r, s, r)
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = begin("axpy", "func(alpha float32, x, y []float32)", []string{"x", "y"},
		"for i := range x {", "	y[i] += float32(alpha * x[i])", "}")
	alpha := l.scalar("alpha")
	l.run(4, func(int) {
		r := l.load("x")
		l.do(fmul, r, alpha, r)
		l.do(fadd, r, l.load("y"), r)
		l.store(r, "y")
	})
	return append(all, l.end())
}

// reductions emits functions that add up or compare all elements. Four sums are kept
// apart, since each addition waits for the one before.
func reductions() []*function {
	var all []*function
	l := begin("dot", "func(a, b []float32) float32", []string{"a", "b"},
		"var sum [4][4]float32", "for i := range a {", "	sum[i/4%4][i%4] = fma(a[i], b[i], sum[i/4%4][i%4])", "}",
		"return the sum of all in sum")
	s := l.sums(4)
	l.run(4, func(number int) { l.do(fmla, s[number], l.load("a"), l.load("b")) })
	all = append(all, l.finish(s))

	l = begin("dot3", "func(a, b, c []float32) float32", []string{"a", "b", "c"},
		"var sum [4][4]float32", "for i := range a {", "	sum[i/4%4][i%4] = fma(a[i]*b[i], c[i], sum[i/4%4][i%4])", "}",
		"return the sum of all in sum")
	s = l.sums(4)
	l.run(4, func(number int) {
		r := l.load("a")
		l.do(fmul, r, r, l.load("b"))
		l.do(fmla, s[number], r, l.load("c"))
	})
	all = append(all, l.finish(s))

	l = begin("maximum", "func(x []float32) float32", []string{"x"},
		"m := x[0]", "for _, v := range x {", "	if v > m {", "		m = v", "	}", "}", "return m")
	s = l.vecs(4)
	for _, r := range s {
		l.ins("VLD1R", mem(0, l.base["x"]), list(r))
	}
	l.run(4, func(number int) {
		var r vec
		if l.single { // lanes of zeros would be compared too
			r = l.vec()
			l.ins("VLD1R", l.mem("x"), list(r))
		} else {
			r = l.load("x")
		}
		l.do(fmax, s[number], s[number], r)
	})
	r := l.fold(s, fmax)
	l.do(maxOf, r, r)
	l.ins("FMOVS", r.part(), l.at("ret", ""))
	all = append(all, l.end())

	l = begin("sumSquares", "func(x []float32) float64", []string{"x"},
		"var sum [4][2]float64", "for i, v := range x {", "	sum[i/2%4][i%2] += float64(v) * float64(v)", "}",
		"return the sum of all in sum")
	s = l.sums(4)
	l.run(4, func(number int) {
		x := l.load("x")
		for half, e := range []encoding{lower, upper} {
			d := l.vec()
			l.do(e, d, x)
			l.do(fmla64, s[2*number%4+half], d, d)
		}
	})
	r = l.fold(s, fadd64)
	l.do(addBoth, r, r)
	l.ins("FMOVD", r.part(), l.at("ret", ""))
	return append(all, l.end())
}
