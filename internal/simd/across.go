package simd

// acrossRows is how many rows of a tile whose c is stored across are computed before they are
// written: a multiple of what kernels compute at once, and of the eight that are transposed at once.
const acrossRows = 24

// turned returns the product of the transposes, op(b)'*a', which writes its result across to the same c,
// if that spares work, and the product itself if not. The right operand of a tile is packed and the left
// one need not be: of the weights of an expert and its few tokens, the tokens had better be packed. Every
// sum has the same terms in the same order, and so the same bits.
func (p *Product) turned(kernel *gemmKernel) Product {
	if kernel.part == nil || p.Panels != nil || p.TransA || !p.TransB || p.Finish != nil || p.byRows() || p.K == 0 ||
		p.M > tileN || p.N < 2*p.M || p.N%8 != 0 {
		return *p
	}
	return Product{M: p.N, N: p.M, K: p.K, A: p.B, B: p.A, TransB: true, C: p.C, StrideC: p.StrideC,
		Accumulate: p.Accumulate, across: true}
}

// multiplyAcross computes rows [i0, i1) of a tile whose c is stored across.
func (t tile) multiplyAcross(kernel *gemmKernel, s *scratch, a left, i0, i1, kn, k0 int) {
	for i := i0; i < i1; i += acrossRows {
		rows := min(acrossRows, i1-i)
		for j := t.j0; j < t.j1; j += kernel.cols {
			cols, b := min(t.j1-j, kernel.cols), &s.b[(j-t.j0)/kernel.cols*panelPitch(kernel.cols*kn)]
			for r := 0; r < rows; r += kernel.rows {
				kernel.part(min(kernel.rows, rows-r), cols, kn, &a.data[(i-i0+r)*a.lane], a.lane, a.step, b,
					kernel.width(cols), &s.block[r*kernel.cols], kernel.cols, false)
			}
			t.storeAcross(kernel, s, i, j, rows, cols, t.Accumulate || k0 > 0)
		}
	}
}

// storeAcross writes the block of rows from i on, a multiple of eight, and columns from j on to c, or adds it.
func (t tile) storeAcross(kernel *gemmKernel, s *scratch, i, j, rows, cols int, add bool) {
	for r := 0; r < rows; r += 8 {
		block, c := &s.block[r*kernel.cols], t.C[j*t.StrideC+i+r:]
		if !add {
			kernel.transpose(&c[0], t.StrideC, block, kernel.cols, 8, cols)
			continue
		}
		kernel.transpose(&s.eight[0], 8, block, kernel.cols, 8, cols)
		for q := range cols {
			out := c[q*t.StrideC:][:8]
			for e, v := range s.eight[8*q:][:8] {
				out[e] += v
			}
		}
	}
}
