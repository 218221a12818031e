package simd

// AdamWStep holds what all elements share in one step of AdamW.
type AdamWStep struct {
	Scale       float32 // of the gradient
	Keep        float32 // 1 - learning rate * decay
	Beta1, New1 float32 // New1 is 1 - Beta1
	Beta2, New2 float32
	Step        float32 // learning rate * sqrt(1 - beta2^t) / (1 - beta1^t)
	Eps         float32 // epsilon * sqrt(1 - beta2^t)
}

// Update changes parameters p and moments m and v by gradients g:
//
//	x := Scale * g[i]
//	m[i] = Beta1*m[i] + New1*x
//	v[i] = Beta2*v[i] + New2*x*x
//	p[i] = Keep*p[i] - Step*m[i]/(sqrt(v[i])+Eps)
func (s *AdamWStep) Update(p, g, m, v []float32) {
	same(len(p), len(g), len(m), len(v))
	active.adamW(p, g, m, v, s.Scale, s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Step, s.Eps)
}

// Moments are those of elements in 8 bits: what their bytes stand for, times the Max of their block.
type Moments struct {
	Codes *Codes
	Bytes []uint8
	Max   []float32 // of each CodeBlock elements, the last of which may be fewer
}

// block returns those of block i.
func (m *Moments) block(i int) Moments {
	return Moments{m.Codes, m.Bytes[i*CodeBlock : min((i+1)*CodeBlock, len(m.Bytes))], m.Max[i : i+1]}
}

// decode writes the moments of one block.
func (m Moments) decode(x []float32) { m.Codes.Decode(x, m.Bytes, m.Max[0]) }

// encode stores the moments x, of which Max has the largest magnitude of each block.
func (m *Moments) encode(x []float32) { m.Codes.Encode(m.Bytes, x, m.Max) }

// Update8 is Update of moments in 8 bits, the first of Codes with a sign, the second without. They are rounded after
// the update, to codes times what the largest of a block is then; m and v are scratch memory, as long as p, of
// some blocks: their largest moments are known before they are encoded, and the caches still have them.
func (s *AdamWStep) Update8(p, g []float32, first, second Moments, m, v []float32) {
	same(len(p), len(g), len(first.Bytes), len(second.Bytes), len(m), len(v))
	same(blocks(len(p)), len(first.Max), len(second.Max))
	n := 0
	if f := active.adamW8; f != nil {
		if n = len(p) / CodeBlock * CodeBlock; n > 0 {
			f(p[:n], g, m, v, first.Bytes, second.Bytes, first.Max, second.Max,
				s.Scale, s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Step, s.Eps)
		}
	}
	for ; n < len(p); n += CodeBlock {
		i, to := n/CodeBlock, min(n+CodeBlock, len(p))
		m, v := m[n:to], v[n:to]
		first.block(i).decode(m)
		second.block(i).decode(v)
		s.Update(p[n:to], g[n:to], m, v)
		first.Max[i], second.Max[i] = MaxAbs(m), MaxAbs(v)
	}
	first.encode(m)
	second.encode(v)
}
