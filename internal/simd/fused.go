package simd

// ScaleMul sets dst[i] = s * x[i] * w[i]: a row of an RMSNorm, with s the reciprocal of
// the root. dst may be x.
func ScaleMul(dst, x, w []float32, s float32) {
	same(len(dst), len(x), len(w))
	active.scaleMul(dst, x, w, s)
}

// NormGrad is the backward pass of a row of an RMSNorm: with n = rstd*x[i], it adds
// dy[i]*n to dw[i] and sets dx[i] = rstd * (dy[i]*w[i] - n*mean), where mean is that of
// dy*w*n. dx may be dy or x.
func NormGrad(dx, dw, dy, x, w []float32, rstd, mean float32) {
	same(len(dx), len(dw), len(dy), len(x), len(w))
	active.normGrad(dx, dw, dy, x, w, rstd, mean)
}

// RotateHalves rotates the pairs (a[i], b[i]) by the angles of cos and sin:
//
//	lo[i], hi[i] = a[i]*cos[i] - b[i]*sin[i], b[i]*cos[i] + a[i]*sin[i]
//
// lo may be a, and hi b.
func RotateHalves(lo, hi, a, b, cos, sin []float32) {
	same(len(lo), len(hi), len(a), len(b), len(cos), len(sin))
	active.rotateHalves(lo, hi, a, b, cos, sin)
}

// RotatePairs rotates the pairs (x[2*i], x[2*i+1]) by the angles of cos and sin, half as
// long, as RotateHalves does. dst may be x.
func RotatePairs(dst, x, cos, sin []float32) {
	same(len(dst), len(x), 2*len(cos), 2*len(sin))
	active.rotatePairs(cos, sin, dst, x)
}

// AdamWStep holds what all elements share in one step of AdamW.
type AdamWStep struct {
	Scale       float32 // of the gradient
	Keep        float32 // 1 - learning rate * decay
	Beta1, New1 float32 // New1 is 1 - Beta1
	Beta2, New2 float32
	Step        float32 // learning rate / (1 - beta1^t)
	Root2, Eps  float32 // Root2 is sqrt(1 - beta2^t)
}

// Update changes parameters p and moments m and v by gradients g:
//
//	x := Scale * g[i]
//	m[i] = Beta1*m[i] + New1*x
//	v[i] = Beta2*v[i] + New2*x*x
//	p[i] = Keep*p[i] - Step*m[i]/(sqrt(v[i])/Root2+Eps)
func (s *AdamWStep) Update(p, g, m, v []float32) {
	same(len(p), len(g), len(m), len(v))
	active.adamW(p, g, m, v, s.Scale, s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Step, s.Root2, s.Eps)
}
