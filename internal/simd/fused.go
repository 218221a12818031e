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

// Moment is one of a block of elements in 8 bits: each is Max times what its byte stands for.
type Moment struct {
	Codes *Codes
	Bytes []uint8
	Max   *float32
}

// encode stores the moments x, of which the largest magnitude is most.
func (m *Moment) encode(x []float32, most float32) {
	*m.Max = most
	m.Codes.Encode(m.Bytes, x, most)
}

// Update8 is Update of moments in 8 bits, the first of Codes with a sign, the second without. They are rounded after
// the update, to codes times what the largest is then; m and v are scratch memory, as long as p.
func (s *AdamWStep) Update8(p, g []float32, first, second Moment, m, v []float32) {
	same(len(p), len(g), len(first.Bytes), len(second.Bytes), len(m), len(v))
	var most1, most2 float32
	if f := active.adamW8; f != nil && len(p)%16 == 0 && len(p) > 0 {
		most1, most2 = f(p, g, m, v, &first.Bytes[0], &second.Bytes[0], *first.Max, *second.Max,
			s.Scale, s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Step, s.Root2, s.Eps)
	} else {
		first.Codes.Decode(m, first.Bytes, *first.Max)
		second.Codes.Decode(v, second.Bytes, *second.Max)
		s.Update(p, g, m, v)
		most1, most2 = MaxAbs(m), MaxAbs(v)
	}
	first.encode(m, most1)
	second.encode(v, most2)
}
