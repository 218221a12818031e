package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise emits functions that read and write each element once.
func elementwise(v isa) {
	l := begin(v, "add", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] = a[i] + b[i]", "}")
	l.run(1, func(int) {
		r := l.load("a")
		VADDPS(l.load("b"), r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "mul", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] = a[i] * b[i]", "}")
	l.run(1, func(int) {
		r := l.load("a")
		VMULPS(l.load("b"), r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "mulAdd", "func(dst, a, b []float32)", []string{"dst", "a", "b"},
		"for i := range dst {", "	dst[i] += a[i] * b[i]", "}")
	l.run(1, func(int) {
		r := l.load("a")
		VMULPS(l.load("b"), r, r)
		VADDPS(l.load("dst"), r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "scale", "func(dst, x []float32, s float32)", []string{"dst", "x"},
		"for i := range dst {", "	dst[i] = s * x[i]", "}")
	s := l.scalar("s")
	l.run(1, func(int) {
		r := l.load("x")
		VMULPS(s, r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "axpy", "func(alpha float32, x, y []float32)", []string{"x", "y"},
		"for i := range x {", "	y[i] += alpha * x[i]", "}")
	alpha := l.scalar("alpha")
	l.run(1, func(int) {
		r := l.load("x")
		VMULPS(alpha, r, r)
		VADDPS(l.load("y"), r, r)
		l.store(r, "y")
	})
	l.end()
}

// reductions emits functions that add up or compare all elements. Four sums are kept
// apart, since each addition waits for the one before.
func reductions(v isa) {
	l := begin(v, "dot", "func(a, b []float32) float32", []string{"a", "b"},
		"var sum [4][lanes]float32", "for i := range a {", "	sum[i/lanes%4][i%lanes] += a[i] * b[i]", "}",
		"return the sum of all in sum")
	s := l.sums(4)
	l.run(4, func(number int) { VFMADD231PS(l.load("b"), l.load("a"), s[number]) })
	l.finish(s, VADDPS)

	l = begin(v, "dot3", "func(a, b, c []float32) float32", []string{"a", "b", "c"},
		"var sum [4][lanes]float32", "for i := range a {", "	sum[i/lanes%4][i%lanes] += a[i] * b[i] * c[i]", "}",
		"return the sum of all in sum")
	s = l.sums(4)
	l.run(4, func(number int) {
		r := l.load("a")
		VMULPS(l.load("b"), r, r)
		VFMADD231PS(l.load("c"), r, s[number])
	})
	l.finish(s, VADDPS)

	l = begin(v, "maximum", "func(x []float32) float32", []string{"x"},
		"m := x[0]", "for _, v := range x {", "	if v > m {", "		m = v", "	}", "}", "return m")
	s = make([]reg.VecVirtual, 4)
	for i := range s {
		s[i] = v.reg()
		VBROADCASTSS(Mem{Base: l.base["x"]}, s[i])
	}
	l.run(4, func(number int) {
		r := l.load("x")
		l.elseTake(s[number], r)
		VMAXPS(s[number], r, s[number])
	})
	l.finish(s, VMAXPS)

	l = begin(v, "sumSquares", "func(x []float32) float64", []string{"x"},
		"var sum [4][lanes]float64", "for i, v := range x {", "	sum[i/lanes%4][i%lanes] += float64(v) * float64(v)", "}",
		"return the sum of all in sum")
	s = l.sums(4)
	l.run(2, func(number int) {
		x := l.load("x")
		for h := range 2 {
			d := v.reg()
			VCVTPS2PD(v.half(x, h), d)
			VFMADD231PD(d, d, s[2*number+h])
		}
	})
	l.finish64(s)

	l = begin(v, "dotWide", "func(a, b []float32) float64", []string{"a", "b"},
		"var sum [4][lanes]float64", "for i := range a {", "	sum[i/lanes%4][i%lanes] += float64(a[i]) * float64(b[i])", "}",
		"return the sum of all in sum")
	s = l.sums(4)
	l.run(2, func(number int) {
		a, b := l.load("a"), l.load("b")
		for h := range 2 {
			x, y := v.reg(), v.reg()
			VCVTPS2PD(v.half(a, h), x)
			VCVTPS2PD(v.half(b, h), y)
			VFMADD231PD(x, y, s[2*number+h])
		}
	})
	l.finish64(s)

	l = begin(v, "addProducts", "func(sum []float64, a, b []float32)", []string{"a", "b", "sum"},
		"for i := range whole vectors of a {", "	sum[i] += float64(a[i]) * float64(b[i])", "}")
	l.whole = true
	l.run(2, func(int) {
		for h := range 2 {
			x, y := v.reg(), v.reg()
			VCVTPS2PD(l.mem("a").Offset(h*v.bytes()/2), x)
			VCVTPS2PD(l.mem("b").Offset(h*v.bytes()/2), y)
			sum := Mem{Base: l.base["sum"], Index: l.at, Scale: 8, Disp: (2*l.offset + h) * v.bytes()}
			VFMADD213PD(sum, x, y)
			VMOVUPD(y, sum)
		}
	})
	l.end()
}

// half returns half h, 0 or 1, of a vector.
func (v isa) half(x reg.VecVirtual, h int) reg.Register {
	switch {
	case h == 0 && v.lanes == 16:
		return x.AsY()
	case h == 0:
		return x.AsX()
	case v.lanes == 16:
		y := YMM()
		VEXTRACTF64X4(Imm(1), x, y)
		return y
	}
	y := XMM()
	VEXTRACTF128(Imm(1), x, y)
	return y
}

// fold joins four vectors and then the halves of the result, down to 128 bits.
func (l *loop) fold(s []reg.VecVirtual, join func(...Op)) reg.Register {
	join(s[1], s[0], s[0])
	join(s[3], s[2], s[2])
	join(s[2], s[0], s[0])
	return l.foldHalves(s[0], join)
}

func (l *loop) foldHalves(r reg.VecVirtual, join func(...Op)) reg.Register {
	x := XMM()
	if l.v.lanes == 16 {
		y := l.v.half(r, 1)
		join(y, r.AsY(), r.AsY())
		VEXTRACTF32X4(Imm(1), r.AsY(), x)
	} else {
		VEXTRACTF128(Imm(1), r.AsY(), x)
	}
	join(x, r.AsX(), r.AsX())
	return r.AsX()
}

// finish returns four vectors of float32, joined.
func (l *loop) finish(s []reg.VecVirtual, join func(...Op)) {
	storeJoined(l.fold(s, join), join, result(0))
	l.end()
}

// storeJoined joins the four lanes of x and stores them as one.
func storeJoined(x reg.Register, join func(...Op), at Mem) {
	y := XMM()
	VMOVHLPS(x, x, y)
	join(y, x, x)
	VMOVSHDUP(x, y)
	join(y, x, x)
	VMOVSS(x, at)
}

// result is where a function's result with the given number goes. avo's Store would take an old instruction,
// for which some processors stall while the upper halves of vectors are in use.
func result(number int) Mem {
	r, err := ReturnIndex(number).Resolve()
	if err != nil {
		panic(err)
	}
	return r.Addr
}

// finish64 returns the sum of four vectors of float64.
func (l *loop) finish64(s []reg.VecVirtual) {
	x, y := l.fold(s, VADDPD), XMM()
	VMOVHLPS(x, x, y)
	VADDSD(y, x, x)
	VMOVSD(x, result(0))
	l.end()
}
