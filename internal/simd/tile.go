package simd

import (
	"sync"
	"unsafe"
)

// gemmKernel is one implementation of the innermost part of a product and the shape of
// the packed panels that it reads.
type gemmKernel struct {
	rows, cols int // of the largest block of c that it computes at once
	step       int // elements of a panel of a for each step of the inner dimension; at least rows
	unit       int // elements that copyPanels moves at once; step is a multiple
	// block sets c, or adds to it, the product of the first rows rows of a panel of a
	// and all columns of a panel of b.
	block func(rows, k int, a, b, c *float32, stride int, add bool)
	// loose is block for a left operand that is not packed: element p of row i is
	// a[i*lane+p*step].
	loose func(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool)
	// transpose packs rows whose elements are to lie across a panel: for p < n and
	// r < rows <= 8, dst[p*step+r] = src[r*stride+p]. It may write up to r = 7.
	transpose func(dst *float32, step int, src *float32, stride, rows, n int)
	// copyPanels packs rows that lie as the panels want them: for p < n, q < panels and
	// i < width, dst[q*skip+p*step+i] = src[p*stride+q*pitch+i]. width is that of a
	// panel, rounded up to a multiple of unit, or unit.
	copyPanels func(dst *float32, step, skip int, src *float32, stride, pitch, width, panels, n int)
}

// The packed operands of a tile, tileK by tileN of b and tileK by blockM of a, stay in
// the second-level cache of a core, which has a megabyte on the machines that matter;
// the third level is hardly faster than memory there. tileK also fixes the order of
// every sum, so it must not depend on the number of threads; how c is cut may.
const (
	tileK  = 384
	tileN  = 288 // a multiple of the width of every kernel
	blockM = 8 * 14

	// wideRows is how many rows are widened at a time: as many as are transposed at once.
	wideRows = 8
)

// scratch holds what one goroutine needs for its tiles.
type scratch struct {
	a, b  []float32                 // packed panels, on a boundary of 64 bytes
	wide  [wideRows * tileK]float32 // rows of an operand, widened
	block [14 * 32]float32          // a block of c that crosses the right edge
}

var scratches = sync.Pool{New: func() any {
	return &scratch{a: aligned(tileK * blockM / 3 * 4), b: aligned(tileK * tileN)}
}}

// aligned returns n elements that start on a boundary of 64 bytes, a cache line.
func aligned(n int) []float32 {
	x := make([]float32, n+16)
	skip := -uintptr(unsafe.Pointer(&x[0])) % 64 / 4
	return x[skip : skip+uintptr(n)]
}

// tile is rows [i0, i1) and columns [j0, j1) of a product, computed by one goroutine.
type tile struct {
	*Product
	i0, i1, j0, j1 int
}

// compute adds up the tile in equal steps of the inner dimension, at most tileK.
func (t tile) compute(kernel *gemmKernel, s *scratch) {
	if t.byRows() {
		t.dots(s)
		return
	}
	if t.K == 0 {
		for i := t.i0; i < t.i1 && !t.Accumulate; i++ {
			clear(t.C[i*t.StrideC+t.j0 : i*t.StrideC+t.j1])
		}
		t.finish(t.i0, t.i1)
	}
	mc := blockM / kernel.rows * kernel.rows
	step := innerStep(t.K)
	for k0 := 0; k0 < t.K; k0 += step {
		kn := min(step, t.K-k0)
		b := packing{kernel: kernel, wide: s.wide[:], dst: s.b, x: t.B, lanes: t.N, width: kernel.cols, step: kernel.cols, k0: k0, kn: kn}
		b.pack(t.j0, t.j1, t.TransB)
		for i0 := t.i0; i0 < t.i1; i0 += mc {
			i1 := min(i0+mc, t.i1)
			a := packing{kernel: kernel, wide: s.wide[:], dst: s.a, x: t.A, lanes: t.M, width: kernel.rows, step: kernel.step, k0: k0, kn: kn}
			a.pack(i0, i1, !t.TransA)
			t.multiply(kernel, s, i0, i1, kn, k0)
		}
	}
}

// innerStep returns in what steps a tile adds up an inner dimension of k: equal ones of
// at most tileK, in multiples of the 8 that fit the packing.
func innerStep(k int) int {
	return ceilDiv(ceilDiv(max(k, 1), max(1, ceilDiv(k, tileK))), 8) * 8
}

// multiply computes rows [i0, i1) of the tile from the packed panels, which hold steps
// [k0, k0+kn) of the inner dimension.
func (t tile) multiply(kernel *gemmKernel, s *scratch, i0, i1, kn, k0 int) {
	add := t.Accumulate || k0 > 0
	for i := i0; i < i1; i += kernel.rows {
		rows := min(kernel.rows, i1-i)
		a := &s.a[(i-i0)/kernel.rows*kernel.step*kn]
		for j := t.j0; j < t.j1; j += kernel.cols {
			b := &s.b[(j-t.j0)*kn]
			if cols := t.j1 - j; cols < kernel.cols {
				kernel.block(rows, kn, a, b, &s.block[0], kernel.cols, false)
				t.store(s.block[:], kernel.cols, i, j, rows, cols, add)
				continue
			}
			kernel.block(rows, kn, a, b, &t.C[i*t.StrideC+j], t.StrideC, add)
		}
		if k0+kn == t.K {
			t.finish(i, i+rows)
		}
	}
}

// finish hands rows [i0, i1) of the tile to Finish.
func (t tile) finish(i0, i1 int) {
	if t.Finish == nil {
		return
	}
	for i := i0; i < i1; i++ {
		t.Finish(t.C[i*t.StrideC+t.j0:i*t.StrideC+t.j1], i, t.j0)
	}
}

// store writes the first columns of a block to c, or adds them.
func (t tile) store(block []float32, stride, i, j, rows, cols int, add bool) {
	for r := range rows {
		c, sums := t.C[(i+r)*t.StrideC+j:][:cols], block[r*stride:][:cols]
		if !add {
			copy(c, sums)
			continue
		}
		for q, v := range sums {
			c[q] += v
		}
	}
}
