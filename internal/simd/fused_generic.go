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
		n, d := rstd*x[i], dy[i]
		dw[i] += d * n
		dx[i] = rstd * (d*w[i] - n*mean)
	}
}

func rotateHalvesGeneric(lo, hi, a, b, cos, sin []float32) {
	n := len(lo)
	hi, a, b, cos, sin = hi[:n], a[:n], b[:n], cos[:n], sin[:n]
	for i, c := range cos {
		x, y, s := a[i], b[i], sin[i]
		lo[i], hi[i] = x*c-y*s, y*c+x*s
	}
}

func rotatePairsGeneric(cos, sin, dst, x []float32) {
	sin, dst, x = sin[:len(cos)], dst[:2*len(cos)], x[:2*len(cos)]
	for i, c := range cos {
		a, b, s := x[2*i], x[2*i+1], sin[i]
		dst[2*i], dst[2*i+1] = a*c-b*s, b*c+a*s
	}
}

func adamWGeneric(p, g, m, v []float32, scale, keep, beta1, new1, beta2, new2, step, root2, eps float32) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := range p {
		x := scale * g[i]
		m[i] = beta1*m[i] + new1*x
		v[i] = beta2*v[i] + new2*x*x
		root := float32(math.Sqrt(float64(v[i])))
		p[i] = keep*p[i] - step*m[i]/(root/root2+eps)
	}
}
