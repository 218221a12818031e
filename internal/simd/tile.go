package simd

import "unsafe"

// gemmKernel is one implementation of the innermost part of a product and the shape of
// the packed panels that it reads.
type gemmKernel struct {
	rows, cols int  // of the largest block of c that it computes at once
	lanes      int  // elements of a vector, where there is part
	step       int  // elements of a panel of a for each step of the inner dimension; at least rows
	unit       int  // elements that copyPanels moves at once; step is a multiple
	narrow     bool // for processors whose second-level cache holds 512 KiB a core, or less
	// block sets c, or adds to it, the product of the first rows rows of a panel of a
	// and all columns of a panel of b.
	block func(rows, k int, a, b, c *float32, stride int, add bool)
	// loose is block for a left operand that is not packed: element p of row i is
	// a[i*lane+p*step]. One of lane and step is 1.
	loose func(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool)
	// part, where there is one, is used instead of both, mostly for an a that is not packed. It is loose for the first
	// cols columns, at least one, of a panel of b, which is width wide, a multiple of lanes: element j of step p is
	// b[p*width+j]. Where there is none, all panels of b are as wide, and a block of fewer columns is computed beside c.
	part func(rows, cols, k int, a *float32, lane, step int, b *float32, width int, c *float32, stride int, add bool)
	// several, where there is one, is used instead of part for columns of any number, in panels of b of the full width that
	// lie pitch elements apart; all lanes of the last but less than a vector are columns. To be called for each panel takes
	// a sixth of the time where the inner dimension is short.
	several func(rows, cols, k int, a *float32, lane, step int, b *float32, pitch int, c *float32, stride int, add bool)
	// transpose packs rows whose elements are to lie across a panel: for p < n and
	// r < rows <= 8, dst[p*step+r] = src[r*stride+p]. It may write up to r = 7.
	transpose func(dst *float32, step int, src *float32, stride, rows, n int)
	// copyPanels packs rows that lie as the panels want them: for p < n, q < panels and
	// i < width, dst[q*skip+p*step+i] = src[p*stride+q*pitch+i]. width is that of a
	// panel, rounded up to a multiple of unit, or unit.
	copyPanels func(dst *float32, step, skip int, src *float32, stride, pitch, width, panels, n int)
}

// The packed part of b of a tile, tileK by tileN, stays in the second-level cache of a core;
// the third level is hardly faster than memory on the machines that matter. tileK also fixes
// the order of every sum, so it must not depend on the number of threads, nor on the machine;
// how c is cut may.
const (
	tileK  = 512
	tileN  = 256
	blockM = 96 // rows of a that are packed together, where they are

	// aliased is a distance of elements, 4096 bytes, at multiples of which a cache has few places. A left operand that is
	// stored transposed is read where it lies if its rows do not lie so, a line for each step and once for every panel of
	// b: with panels of 64 columns that takes less than packing it, with the narrow ones of other kernels up to twice the
	// time.
	aliased = 1024

	wideN = 384                          // tileN of a product whose a is packed, once for each of its tiles side by side
	roomB = wideN / 16 * (16*tileK + 16) // elements of the panels of b

	// These take their place in a narrow kernel: with 256 columns a Zen 3 computes the products of a model of 512
	// by 1536 at 81 to 88 GFLOP/s, with 192 at 88 to 93, with 128 at 84 to 92.
	narrowTileN, narrowWideN = 192, 256

	// wideRows is how many rows are widened at a time: as many as are transposed at once.
	wideRows = 8
)

// scratch holds what one goroutine needs for its tiles.
type scratch struct {
	a, b  []float32                 // packed panels, on a boundary of 64 bytes
	wide  [wideRows * tileK]float32 // rows of an operand, widened
	block [acrossRows * 64]float32  // a block of c that is to be transposed
	eight [8 * 64]float32           // rows of c that were, to be added
}

var scratches = stock[scratch]{make: func() *scratch {
	return &scratch{a: aligned(blockM / 3 * panelPitch(4*tileK)), b: aligned(roomB)}
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
	step := innerStep(t.K)
	for k0 := 0; k0 < t.K; k0 += step {
		kn := min(step, t.K-k0)
		if t.Panels != nil {
			t.multiply(kernel, s, kn, k0)
			continue
		}
		b := packing{kernel: kernel, wide: s.wide[:], dst: s.b, x: t.B, lanes: t.N, width: kernel.cols, step: kernel.cols,
			pitch: panelPitch(kernel.cols * kn), k0: k0, kn: kn}
		b.packRight(t.j0, t.j1, t.TransB)
		t.multiply(kernel, s, kn, k0)
	}
}

// innerStep returns in what steps a tile adds up an inner dimension of k: equal ones of
// at most tileK, in multiples of the 8 that fit the packing.
func innerStep(k int) int {
	return ceilDiv(ceilDiv(max(k, 1), max(1, ceilDiv(k, tileK))), 8) * 8
}

// left is some rows of the left operand of a tile: element p of row i is data[i*lane+p*step].
type left struct {
	data       []float32
	lane, step int
	panel      int // elements of a packed panel; 0: it is not packed
}

// right is the packed right operand from some column on, for some steps of the inner dimension.
type right struct {
	data  []float32
	pitch int // elements from one panel to the next
	from  int // the first step of those in a panel
	cols  int // how many columns there are; the last panel may be narrow, and have more
}

// asStored is the left operand from that row and step on, as it lies.
func (x Matrix) asStored(row, k int, trans bool) left {
	if trans {
		return left{data: x.Data[k*x.Stride+row:], lane: 1, step: x.Stride}
	}
	return left{data: x.Data[row*x.Stride+k:], lane: x.Stride, step: 1}
}

// multiply computes steps [k0, k0+kn) of the inner dimension of a tile, whose part of b is
// packed.
func (t tile) multiply(kernel *gemmKernel, s *scratch, kn, k0 int) {
	b := right{data: s.b, pitch: panelPitch(kernel.cols * kn), cols: t.j1 - t.j0}
	if t.Panels != nil {
		b = t.Panels.from(t.j0, k0)
	}
	if kernel.part != nil && t.A.plain() && (!t.TransA || !kernel.narrow && t.A.Stride%aliased != 0) {
		t.multiplyRows(kernel, s, t.A.asStored(t.i0, k0, t.TransA), b, t.i0, t.i1, kn, k0)
		return
	}
	mc := blockM / kernel.rows * kernel.rows
	for i0 := t.i0; i0 < t.i1; i0 += mc {
		i1 := min(i0+mc, t.i1)
		p := packing{kernel: kernel, wide: s.wide[:], dst: s.a, x: t.A, lanes: t.M, width: kernel.rows, step: kernel.step,
			pitch: panelPitch(kernel.step * kn), k0: k0, kn: kn}
		t.multiplyRows(kernel, s, p.packLeft(i0, i1, t.TransA), b, i0, i1, kn, k0)
	}
}

// multiplyRows computes rows [i0, i1) of the tile.
func (t tile) multiplyRows(kernel *gemmKernel, s *scratch, a left, b right, i0, i1, kn, k0 int) {
	if t.across {
		t.multiplyAcross(kernel, s, a, i0, i1, kn, k0)
		return
	}
	add := t.Accumulate || k0 > 0
	for i, rows := i0, 0; i < i1; i += rows {
		rows = kernel.height(i1-i, a)
		from := (i - i0) * a.lane
		if a.panel > 0 {
			from = (i - i0) / kernel.rows * a.panel
		}
		kernel.multiply(rows, kn, a, &a.data[from], b, t.j1-t.j0, t.C[i*t.StrideC+t.j0:], t.StrideC, add)
		if k0+kn == t.K {
			t.finish(i, i+rows)
		}
	}
}

// height returns how many of the rows that remain to compute next: the last ones in two
// equal blocks, unless panels are packed, since a low block takes longer for each row.
func (kernel *gemmKernel) height(rows int, a left) int {
	if a.panel == 0 && rows > kernel.rows && rows < 2*kernel.rows {
		return ceilDiv(rows, 2)
	}
	return min(kernel.rows, rows)
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
