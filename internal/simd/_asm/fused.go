package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// results emits the passes whose results are as large as a layer's: all that happens to
// an element while it is in a register. Where they stream, their slices must start on the
// boundary of a vector.
func results(v isa) {
	l := begin(v, "scaleMul", "func(dst, x, w []float32, s float32)", []string{"dst", "x", "w"},
		"for i := range dst {", "	dst[i] = s * x[i] * w[i]", "}")
	s := l.scalar("s")
	if v.stream {
		l.follow("x", "next")
	}
	l.run(1, func(int) {
		if v.stream { // rows come from memory, each read twice: the next one while this one is written
			PREFETCHT0(l.mem("next"))
		}
		r := l.load("x")
		VMULPS(s, r, r)
		VMULPS(l.load("w"), r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "normGrad", "func(dx, dw, dy, x, w []float32, rstd, mean float32)", []string{"dx", "dw", "dy", "x", "w"},
		"for i := range dx {", "	n := rstd * x[i]", "	dw[i] += dy[i] * n", "	dx[i] = rstd * (dy[i]*w[i] - n*mean)", "}")
	rstd, mean := l.scalar("rstd"), l.scalar("mean")
	l.run(1, func(int) {
		n, dy, dw, dx := l.load("x"), l.load("dy"), v.reg(), v.reg()
		VMULPS(rstd, n, n)
		VMULPS(dy, n, dw)
		VADDPS(l.load("dw"), dw, dw)
		VMULPS(l.load("w"), dy, dx)
		VMULPS(mean, n, n)
		VSUBPS(n, dx, dx)
		VMULPS(rstd, dx, dx)
		l.storeCached(dw, "dw")
		l.store(dx, "dx")
	})
	l.end()

	l = begin(v, "rotateHalves", "func(lo, hi, a, b, cos, sin []float32)", []string{"lo", "hi", "a", "b", "cos", "sin"},
		"for i := range lo {", "	lo[i], hi[i] = a[i]*cos[i]-b[i]*sin[i], b[i]*cos[i]+a[i]*sin[i]", "}")
	l.run(1, func(int) { l.rotateHalves() })
	l.end()

	rotateHeads(v)
	rotatePairs(v)
	gated(v)
}

// rotateHalves emits the rotation of the next vectors of a and b.
func (l *loop) rotateHalves() {
	a, b, cos, sin := l.load("a"), l.load("b"), l.load("cos"), l.load("sin")
	x, y := l.v.reg(), l.v.reg()
	VMULPS(cos, a, x)
	VMULPS(sin, b, y)
	VSUBPS(y, x, x)
	VMULPS(cos, b, b)
	VMULPS(sin, a, a)
	VADDPS(a, b, b)
	l.store(x, "lo")
	l.store(b, "hi")
}

// rotateHeads emits rotateHalves for all heads of a row, which are too short for a call
// each.
func rotateHeads(v isa) {
	l := begin(v, "rotateHeads", "func(cos, sin, dst, x []float32, width int)", []string{"cos", "sin", "dst", "x"},
		"n := len(cos), a multiple of 16", "for h := 0; h+width <= len(dst); h += width {",
		"	rotateHalves(dst[h:h+n], dst[h+n:h+2*n], x[h:h+n], x[h+n:h+2*n], cos, sin)", "}")
	l.whole = true
	left, width := Load(Param("dst").Len(), GP64()), Load(Param("width"), GP64())
	l.base["lo"], l.base["a"] = l.base["dst"], l.base["x"]
	l.follow("lo", "hi")
	l.follow("a", "b")
	Label("heads")
	SUBQ(width, left)
	JL(LabelRef("done"))
	XORQ(l.at, l.at)
	l.run(1, func(int) { l.rotateHalves() })
	for _, s := range []string{"lo", "hi", "a", "b"} {
		LEAQ(Mem{Base: l.base[s], Index: width, Scale: 4}, l.base[s])
	}
	JMP(LabelRef("heads"))
	Label("done")
	l.end()
}

// fused emits the other passes of whole operations.
func fused(v isa) {
	l := begin(v, "softmaxGrad", "func(dst, p, dp []float32, dot, scale float32)", []string{"dst", "p", "dp"},
		"for i := range dst {", "	dst[i] = p[i] * (dp[i] - dot) * scale", "}")
	dot, scale := l.scalar("dot"), l.scalar("scale")
	l.run(1, func(int) {
		r := l.load("dp")
		VSUBPS(dot, r, r)
		VMULPS(l.load("p"), r, r)
		VMULPS(scale, r, r)
		l.store(r, "dst")
	})
	l.end()

	l = begin(v, "adamW", "func(p, g, m, v []float32, scale, keep, beta1, new1, beta2, new2, step, eps float32)",
		[]string{"p", "g", "m", "v"},
		"for i := range p {", "	x := scale * g[i]", "	m[i] = beta1*m[i] + new1*x", "	v[i] = beta2*v[i] + new2*x*x",
		"	p[i] = keep*p[i] - step*m[i]/(sqrt(v[i])+eps)", "}")
	u := l.adamWScalars()
	l.run(1, func(int) { l.adamW(u, l.load("m"), l.load("v"), func(_, _ reg.VecVirtual) {}) })
	l.end()
}

// adamWScalars are the parameters of adamW that are numbers.
type adamWScalars struct{ scale, keep, beta1, new1, beta2, new2, step, eps reg.VecVirtual }

func (l *loop) adamWScalars() adamWScalars {
	return adamWScalars{l.scalar("scale"), l.scalar("keep"), l.scalar("beta1"), l.scalar("new1"), l.scalar("beta2"),
		l.scalar("new2"), l.scalar("step"), l.scalar("eps")}
}

// adamW emits the body of an optimizer step, operation by operation as the Go loop has
// them, so that it gives the same bits; updated may look at the new moments.
func (l *loop) adamW(u adamWScalars, m, v reg.VecVirtual, updated func(m, v reg.VecVirtual)) {
	x := l.load("g")
	VMULPS(u.scale, x, x)
	t := l.v.reg()
	VMULPS(u.beta1, m, m)
	VMULPS(u.new1, x, t)
	VADDPS(t, m, m)
	l.store(m, "m")
	VMULPS(u.new2, x, t)
	VMULPS(x, t, t)
	VMULPS(u.beta2, v, v)
	VADDPS(t, v, v)
	l.store(v, "v")
	updated(m, v)
	VSQRTPS(v, v)
	VADDPS(u.eps, v, v)
	VMULPS(u.step, m, m)
	VDIVPS(v, m, m)
	p := l.load("p")
	VMULPS(u.keep, p, p)
	VSUBPS(m, p, p)
	l.store(p, "p")
}

// rotatePairs emits the rotation of neighbours. Each angle is spread over two lanes; the
// other element of each pair comes from a swap, and its sign goes with the sine.
func rotatePairs(v isa) {
	l := begin(v, "rotatePairs", "func(cos, sin, dst, x []float32)", []string{"cos", "sin", "dst", "x"},
		"for i := range cos {", "	a, b := x[2*i], x[2*i+1]",
		"	dst[2*i], dst[2*i+1] = a*cos[i]-b*sin[i], b*cos[i]+a*sin[i]", "}, len(cos) a multiple of 8")
	l.whole, l.stride = true, v.lanes/2
	twice := func(name string) reg.VecVirtual {
		r := v.reg()
		VPMOVZXDQ(l.mem(name), r)
		VMOVSLDUP(r, r)
		return r
	}
	signs := v.reg()
	VMOVUPS(table("signs", func(i int) uint32 { return uint32(1-i%2) << 31 }), signs)
	l.run(1, func(int) {
		at := func(name string) Mem { return Mem{Base: l.base[name], Index: l.at, Scale: 8} }
		x, other, cos, sin := v.reg(), v.reg(), twice("cos"), twice("sin")
		VMOVUPS(at("x"), x)
		VPERMILPS(Imm(0xb1), x, other)
		if v.lanes == 16 {
			VPXORD(signs, sin, sin)
		} else {
			VXORPS(signs, sin, sin)
		}
		VMULPS(cos, x, x)
		VMULPS(sin, other, other)
		VADDPS(other, x, x)
		if v.stream {
			VMOVNTPS(x, at("dst"))
		} else {
			VMOVUPS(x, at("dst"))
		}
	})
	l.end()
}

// fence emits what makes streamed results visible to others before anything after it.
func fence() {
	TEXT("fenceAMD64", NOSPLIT, "func()")
	Doc("fenceAMD64 lets no later store be seen before the streamed ones.")
	SFENCE()
	RET()
}

// prefetch emits what brings memory into the caches while there is other work to do.
func prefetch() {
	TEXT("prefetchAMD64", NOSPLIT, "func(x *byte, n int)")
	Doc("prefetchAMD64 asks for the cache lines of n bytes, of which there is one at least.")
	Pragma("noescape")
	at, end := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	ADDQ(at, end)
	Label("line")
	PREFETCHT0(Mem{Base: at})
	ADDQ(Imm(64), at)
	CMPQ(at, end)
	JLT(LabelRef("line"))
	RET()
}
