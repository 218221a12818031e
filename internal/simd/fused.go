package simd

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
