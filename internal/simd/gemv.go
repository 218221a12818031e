package simd

import "unsafe"

// FewRows is how many rows of a Product with Dots may have for it to be computed from the
// rows of B as they are stored, if B is transposed. Such a product is bound by the bandwidth
// of memory: to pack b would read it, write it and read it again. With more rows than this,
// to pack b is cheaper.
//
// A row of such a product has the same bits whatever the others are, and however many of them
// there are, up to this number. The two ways add in different orders, and so round differently:
// who sets Dots says that the bits of a row may depend on whether there are more.
const FewRows = 16

// What dots does at a time.
const (
	fewColumns = 48      // columns of c at most, a multiple of what kernels compute at once: 1, 3 or 4
	fewMost    = 480     // columns of a tile, or as many as have fewTile: with more, some wait for the last one for milliseconds, as of a model's head
	fewTile    = 2 << 20 // bytes of b
	fewUnit    = 12      // what pieces of b are multiples of
	fewTerms   = 512     // terms whose sum is added to that of the ones before; a multiple of the lanes of all variants
	fewAhead   = 8       // columns of whole rows that memory is asked for before it is read
	// fewBytes is how much of b such columns have, about, so that they and those that are asked for meanwhile stay in the
	// second-level cache.
	fewBytes = 96 << 10
	// fewCached is how many elements of rows of a stay in the first-level cache, while b is read once.
	fewCached = 4096
)

// fewKernel computes up to 8 rows of a product with rows of b as they are stored: for rows i and
// j < n, y[i][j] += x[i][0]*w[j][0] + x[i][1]*w[j][1] + ..., of k terms, fewTerms of them after the other. Strides are in bytes.
// The order of a sum follows from k alone, in all kernels of a type of a variant. Unless it is nil, next is where as much
// memory begins as the kernel reads of w, which it asks for meanwhile.
type fewKernel func(k int, x *float32, strideX int, w *byte, strideW, n int, y *float32, strideY int, next *byte)

// fewKernels are those of 1, 2, 4 and 8 rows; there may be only the first ones.
type fewKernels [4]fewKernel

// fewRows are the kernels for the types that a weight may be stored as; those of int8 leave its scale
// out. All but plain want k to be a multiple of lanes, or are not there.
type fewRows struct {
	lanes                          int
	plain, bfloat16, float16, int8 fewKernels
}

// dotRows makes the kernel of one row out of a dot product.
func dotRows(dot func(a, b []float32) float32) fewRows {
	return fewRows{plain: fewKernels{func(k int, x *float32, _ int, w *byte, strideW, n int, y *float32, _ int, _ *byte) {
		out, a := unsafe.Slice(y, n), unsafe.Slice(x, k)
		for j := range out {
			b := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(w), j*strideW)), k)
			for at := 0; at < k; at += fewTerms {
				end := min(at+fewTerms, k)
				out[j] += dot(a[at:end], b[at:end])
			}
		}
	}}}
}

// byRows reports whether the product is computed from rows of b as they are.
func (p *Product) byRows() bool {
	return p.Dots && p.M <= FewRows && p.K > 0 && p.TransB && !p.TransA && p.A.plain()
}

// cutRows appends the tiles of a product of few rows: pieces of b, several for each of
// the goroutines, for they do not all get the same share of the memory's bandwidth.
func (p *Product) cutRows(tiles []tile, share int) []tile {
	pieces := 1
	if share > 1 {
		pieces = 4 * share
	}
	width := ceilDiv(ceilDiv(p.N, pieces), fewUnit) * fewUnit
	if share > 1 {
		width = min(width, max(fewMost, fewTile/(p.B.size()*p.K)/fewUnit*fewUnit))
	}
	for j := 0; j < p.N; j += width {
		tiles = append(tiles, tile{p, 0, p.M, j, min(j+width, p.N)})
	}
	return tiles
}

// dots computes a tile of few rows.
func (t tile) dots(s *scratch) {
	p := fewPart{tile: t, scratch: s, kernels: t.B.fewKernels(t.K), terms: fewTerms}
	if p.kernels != nil {
		p.terms = max(fewTerms, fewCached/t.M&^(fewTerms-1))
	}
	p.left()
	columns := max(fewUnit, min(fewColumns, fewBytes/(t.B.size()*t.K)/fewUnit*fewUnit))
	for j := t.j0; j < t.j1; j += columns {
		end := min(j+columns, t.j1)
		clear(s.block[:t.M*fewColumns])
		if p.kernels == &active.few.int8 {
			Prefetch(t.B.Scale[j:end]) // too few at a time to be guessed
		}
		for k0 := 0; k0 < t.K; k0 += p.terms {
			p.columns(j, end, k0, min(p.terms, t.K-k0))
		}
		if p.kernels == &active.few.int8 {
			for i := range t.M {
				sums := s.block[i*fewColumns:][:end-j]
				active.mul(sums, sums, t.B.Scale[j:end])
			}
		}
		store(t.C[j:], t.StrideC, s.block[:], fewColumns, t.M, end-j, t.Accumulate)
	}
	t.finish(0, t.M)
}

// fewKernels returns the kernels that read rows of so many elements as they are stored, nil if there are none.
func (x Matrix) fewKernels(k int) *fewKernels {
	few := &active.few
	switch {
	case x.plain():
		return &few.plain
	case x.Load != nil || x.Rounded || few.lanes == 0 || k%few.lanes > 0:
		return nil
	case x.BFloat16 != nil:
		return &few.bfloat16
	case x.Int8 != nil:
		return &few.int8
	}
	return &few.float16
}

// of returns the kernel of the most of these rows that there is one for.
func (k *fewKernels) of(rows int) (int, fewKernel) {
	for i := len(k) - 1; ; i-- {
		if 1<<i <= rows && k[i] != nil {
			return 1 << i, k[i]
		}
	}
}

// fewPart is a tile of few rows, computed from some columns and terms at a time.
type fewPart struct {
	tile
	*scratch
	kernels *fewKernels // nil: b is widened first
	terms   int         // at a time; what there are of them in all rows of a stays in the first-level cache
	copied  bool        // the rows of a are
}

// left copies the rows of the left operand, if there is room, because those of models lie a large power of 2 apart, as
// those of the weight do: all would share few places of a cache. Of each terms there are all rows, one after the other.
func (p *fewPart) left() {
	pitch := panelPitch(p.terms)
	if p.copied = p.M > 1 && ceilDiv(p.K, p.terms)*p.M*pitch <= len(p.a); !p.copied {
		return
	}
	for k0, at := 0, 0; k0 < p.K; k0 += p.terms {
		for i := range p.M {
			copy(p.a[at:], p.A.Data[i*p.A.Stride+k0:][:min(p.terms, p.K-k0)])
			at += pitch
		}
	}
}

// rows returns terms of the left operand from k0 on, of all rows, and how far these lie apart.
func (p *fewPart) rows(k0 int) (x []float32, stride int) {
	if !p.copied {
		return p.A.Data[k0:], p.A.Stride
	}
	pitch := panelPitch(p.terms)
	return p.a[k0/p.terms*p.M*pitch:], pitch
}

// columns adds terms [k0, k0+kn) to columns [j0, j1), in the block.
func (p *fewPart) columns(j0, j1, k0, kn int) {
	if p.kernels == nil {
		p.widened(j0, j1, k0, kn)
		return
	}
	w := p.B.bytesAt(j0*p.B.Stride + k0)
	p.multiply(p.kernels, w, p.B.size()*p.B.Stride, 0, j1-j0, k0, kn, p.next(j0, j1, k0, kn))
}

// next returns where the memory begins that is asked for while some terms of some columns are read, in the order of its
// addresses: where these are whole rows, a few columns on; else as large a part of the next columns as these terms are of these.
func (p *fewPart) next(j0, j1, k0, kn int) *byte {
	switch {
	case p.B.Stride != p.K:
		return nil
	case kn == p.K && j0+fewAhead < p.N:
		return p.B.bytesAt((j0 + fewAhead) * p.K)
	case kn < p.K && j1 < p.j1:
		return p.B.bytesAt(j1*p.K + min(j1-j0, p.j1-j1)*k0)
	}
	return nil
}

// size is that of an element as it is stored, of those that kernels of few rows read.
func (x Matrix) size() int {
	switch {
	case x.BFloat16 != nil, x.Float16 != nil:
		return 2
	case x.Int8 != nil:
		return 1
	}
	return 4
}

// bytesAt is where an element is stored.
func (x Matrix) bytesAt(i int) *byte {
	switch {
	case x.BFloat16 != nil:
		return bytesAt(x.BFloat16, i)
	case x.Float16 != nil:
		return bytesAt(x.Float16, i)
	case x.Int8 != nil:
		return bytesAt(x.Int8, i)
	}
	return bytesAt(x.Data, i)
}

func bytesAt[T any](x []T, at int) *byte { return (*byte)(unsafe.Pointer(&x[at])) }

// widened is columns whose rows of b no kernel reads as they are stored.
func (p *fewPart) widened(j0, j1, k0, kn int) {
	for j := j0; j < j1; j += wideRows {
		rows := min(wideRows, j1-j)
		for r := range rows {
			p.B.widen(p.wide[r*tileK:][:kn], (j+r)*p.B.Stride+k0)
		}
		p.multiply(&active.few.plain, bytesAt(p.wide[:], 0), 4*tileK, j-j0, rows, k0, kn, nil)
	}
}

// multiply adds terms [k0, k0+kn) to n columns of the block, from column j on, with rows that begin at w. The first rows of
// the left operand ask for what is next.
func (p *fewPart) multiply(kernels *fewKernels, w *byte, stride, j, n, k0, kn int, next *byte) {
	x, strideX := p.rows(k0)
	for i := 0; i < p.M; next = nil {
		rows, kernel := kernels.of(p.M - i)
		kernel(kn, &x[i*strideX], 4*strideX, w, stride, n, &p.block[i*fewColumns+j], 4*fewColumns, next)
		i += rows
	}
}
