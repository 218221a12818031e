package simd

// Panels holds the right operand B [K,N] of a series of products, packed once. Its
// products are for loops that spread larger pieces of work over the cores themselves:
// each runs in the goroutine that asks for it, and packs nothing.
type Panels struct {
	k, n   int
	kernel *gemmKernel // that they are for
	data   []float32   // panels of all k rows and a few columns, on a boundary of 64 bytes
}

// PanelsSize returns how many elements the panels of a right operand [k,n] take.
func PanelsSize(k, n int) int {
	return ceilDiv(n, active.gemm.cols) * panelPitch(active.gemm.cols*k)
}

// PackPanels packs op(b), k by n, for Product.Panels, with as many goroutines as a product has; trans tells that b is
// stored [n,k]. They lie in room, on a boundary of 64 bytes, which has PanelsSize elements.
func PackPanels(k, n int, b Matrix, trans bool, room []float32) *Panels {
	if k < 0 || n < 0 {
		panic(negSize)
	}
	b.check(k, n, trans, shortB)
	p := &Panels{k: k, n: n, kernel: active.gemm, data: room[:PanelsSize(k, n)]}
	cols := p.kernel.cols
	width, pitch := tileK/cols*cols, panelPitch(cols*k)
	whole := n / cols * cols // columns of whole panels; those of a narrow one are a strip of their own
	strips, steps := ceilDiv(whole, width), ceilDiv(k, tileK)
	if whole < n {
		strips++
	}
	Parallel(strips*steps, 1, func(lo, hi int) {
		s := scratches.get()
		defer scratches.put(s)
		for i := lo; i < hi; i++ {
			from, k0 := i%strips*width, i/strips*tileK
			to, at := min(from+width, whole), k0*cols
			if i%strips == strips-1 && whole < n {
				from, to, at = whole, n, k0*p.kernel.width(n-whole)
			}
			packing{kernel: p.kernel, wide: s.wide[:], dst: p.data[from/cols*pitch+at:], x: b, lanes: n, width: cols,
				step: cols, pitch: pitch, k0: k0, kn: min(tileK, k-k0)}.packRight(from, to, trans)
		}
	})
	return p
}

// from returns the columns from j on, a multiple of those of a panel, and the rows from k0 on.
func (p *Panels) from(j, k0 int) right {
	pitch := panelPitch(p.kernel.cols * p.k)
	return right{data: p.data[j/p.kernel.cols*pitch:], pitch: pitch, from: k0, cols: p.n - j}
}

// Pack makes the panels those of b, which is stored row-major [k,n], or [n,k] if trans;
// stride is the distance between its rows. It reuses the memory of what was there.
func (p *Panels) Pack(k, n int, b []float32, stride int, trans bool) {
	if k < 0 || n < 0 {
		panic(negSize)
	}
	x, kernel := Matrix{Data: b, Stride: stride}, active.gemm
	x.check(k, n, trans, shortB)
	p.k, p.n, p.kernel = k, n, kernel
	if size := PanelsSize(k, n); size > len(p.data) {
		p.data = aligned(size)
	}
	if k > 0 {
		packing{kernel: kernel, dst: p.data, x: x, lanes: n, width: kernel.cols, step: kernel.cols,
			pitch: panelPitch(kernel.cols * k), kn: k}.packRight(0, n, trans)
	}
}

// PanelRows returns of how many rows a product with panels makes the most: it computes
// them at once, and fewer take longer each.
func PanelRows() int { return active.gemm.rows }

// PanelStart returns the largest column up to col that a product with panels may start at.
func PanelStart(col int) int { return col / active.gemm.cols * active.gemm.cols }

// PanelEnd returns the smallest column from col on that a product with panels had better end at, also beyond those of
// the panels: up to there a vector is computed anyway, or a panel where the processor has no kernel for a part of one.
// What a product writes beyond the columns that there are is undefined.
func PanelEnd(col int) int {
	kernel := active.gemm
	if kernel.part == nil {
		return PanelStart(col + kernel.cols - 1)
	}
	return kernel.width(col)
}

// Strip is a product with a part of some panels: C = op(A)*B[K0:K1,N0:N1], or C += that.
// op(A) is M by K1-K0, C is M by N1-N0, and N0 is a PanelStart. A needs no packing, but
// its rows should not lie a multiple of 4096 bytes apart, where caches have few places.
type Strip struct {
	M, K0, K1, N0, N1 int
	A                 []float32
	StrideA           int
	TransA            bool // A is stored [K1-K0,M]
	C                 []float32
	StrideC           int
	Accumulate        bool
}

// Multiply computes a strip.
func (p *Panels) Multiply(s Strip) {
	k, kernel := s.K1-s.K0, active.gemm
	s.check(p, k, kernel.cols)
	if s.M == 0 || s.N0 == s.N1 || k == 0 && s.Accumulate {
		return
	}
	if k == 0 {
		for i := range s.M {
			clear(s.C[i*s.StrideC:][:s.N1-s.N0])
		}
		return
	}
	a := left{lane: s.StrideA, step: 1}
	if s.TransA {
		a = left{lane: 1, step: s.StrideA}
	}
	b := p.from(s.N0, s.K0)
	for i, rows := 0, 0; i < s.M; i += rows {
		rows = kernel.height(s.M-i, a)
		kernel.multiply(rows, k, a, &s.A[i*a.lane], b, s.N1-s.N0, s.C[i*s.StrideC:], s.StrideC, s.Accumulate)
	}
}

func (s *Strip) check(p *Panels, k, cols int) {
	switch {
	case s.M < 0 || k < 0 || s.N0 > s.N1:
		panic(negSize)
	case s.K0 < 0 || s.K1 > p.k || s.N0 < 0 || s.N1 > p.n && s.N1 != PanelEnd(p.n) || s.N0%cols != 0:
		panic("simd: not a part of the panels")
	}
	Matrix{Data: s.A, Stride: s.StrideA}.check(s.M, k, s.TransA, shortA)
	Matrix{Data: s.C, Stride: s.StrideC}.check(s.M, s.N1-s.N0, false, shortC)
}
