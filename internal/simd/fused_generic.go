package simd

import "math"

func scaleMulGeneric(dst, x, w []float32, s float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	for i := range dst {
		dst[i] = s * x[i] * w[i]
	}
}

func normGradGeneric(dx, dw, dy, x, w []float32, rstd, mean float32) {
	dw, dy, x, w = dw[:len(dx)], dy[:len(dx)], x[:len(dx)], w[:len(dx)]
	for i := range dx {
		n, d := float32(rstd*x[i]), dy[i]
		dw[i] += float32(d * n)
		dx[i] = rstd * (float32(d*w[i]) - float32(n*mean))
	}
}

func rotateHalvesGeneric(lo, hi, a, b, cos, sin []float32) {
	n := len(lo)
	hi, a, b, cos, sin = hi[:n], a[:n], b[:n], cos[:n], sin[:n]
	for i, c := range cos {
		x, y, s := a[i], b[i], sin[i]
		lo[i], hi[i] = float32(x*c)-float32(y*s), float32(y*c)+float32(x*s)
	}
}

func rotatePairsGeneric(cos, sin, dst, x []float32) {
	sin, dst, x = sin[:len(cos)], dst[:2*len(cos)], x[:2*len(cos)]
	for i, c := range cos {
		a, b, s := x[2*i], x[2*i+1], sin[i]
		dst[2*i], dst[2*i+1] = float32(a*c)-float32(b*s), float32(b*c)+float32(a*s)
	}
}

func adamWGeneric(p, g, m, v []float32, scale, keep, beta1, new1, beta2, new2, step, eps float32) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := range p {
		x := float32(scale * g[i])
		m[i] = float32(beta1*m[i]) + float32(new1*x)
		v[i] = float32(beta2*v[i]) + float32(float32(new2*x)*x)
		root := float32(math.Sqrt(float64(v[i])))
		p[i] = float32(keep*p[i]) - step*m[i]/(root+eps)
	}
}
