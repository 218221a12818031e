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
	fewColumns = 48   // columns of c, a multiple of what kernels compute at once: 2, 3 or 4
	fewCopied  = 480  // of these, where rows of a are copied for them
	fewStep    = 4    // of these, where the rows take several kernels: b is in the cache for all but the first
	fewUnit    = 12   // what pieces of b are multiples of
	rowBlock   = 1024 // terms; tileK where b is widened
)

// fewKernel computes up to 8 rows of a product with rows of b as they are stored: for rows i and
// j < n, y[i][j] = x[i][0]*w[j][0] + x[i][1]*w[j][1] + ..., of k terms. Strides are in bytes. The
// order of a sum follows from k alone, in all kernels of a type of a variant.
type fewKernel func(k int, x *float32, strideX int, w *byte, strideW, n int, y *float32, strideY int)

// fewKernels are those of 1, 2, 4 and 8 rows; there may be only the first ones.
type fewKernels [4]fewKernel

// fewRows are the kernels for the types that a weight may be stored as; those of int8 leave its scale
// out. All but plain want k to be a multiple of lanes, or are not there.
type fewRows struct {
	lanes                          int
	step                           int // multiples of fewStep, see there
	plain, bfloat16, float16, int8 fewKernels
}

// dotRows makes the kernel of one row out of a dot product.
func dotRows(dot func(a, b []float32) float32) fewRows {
	return fewRows{step: fewStep, plain: fewKernels{func(k int, x *float32, _ int, w *byte, strideW, n int, y *float32, _ int) {
		out := unsafe.Slice(y, n)
		for j := range out {
			b := (*float32)(unsafe.Add(unsafe.Pointer(w), j*strideW))
			out[j] = dot(unsafe.Slice(x, k), unsafe.Slice(b, k))
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
		width = min(width, fewCopied) // or some wait for the last one for milliseconds, as of a model's head
	}
	for j := 0; j < p.N; j += width {
		tiles = append(tiles, tile{p, 0, p.M, j, min(j+width, p.N)})
	}
	return tiles
}

// dots computes a tile of few rows.
func (t tile) dots(s *scratch) {
	width := fewColumns
	if t.M > 1 {
		width = fewCopied
	}
	for j := t.j0; j < t.j1; j += width {
		tile{t.Product, 0, t.M, j, min(j+width, t.j1)}.dotsAt(s)
	}
}

// dotsAt is dots of the columns for which the rows of the left operand are copied.
func (t tile) dotsAt(s *scratch) {
	for k0, kn := 0, 0; k0 < t.K; k0 += kn {
		p := fewPart{tile: t, scratch: s, k0: k0}
		p.kernels, kn = t.B.fewKernels(t.K - k0)
		p.kn = kn
		p.left()
		for j := t.j0; j < t.j1; j += fewColumns {
			end := min(j+fewColumns, t.j1)
			p.columns(j, end)
			store(t.C[j:], t.StrideC, s.block[:], fewColumns, t.M, end-j, t.Accumulate || k0 > 0)
		}
	}
	t.finish(0, t.M)
}

// fewKernels returns the kernels that read the rows as they are stored, nil if there are none, and how
// many of the terms that are left may be added up at once.
func (x Matrix) fewKernels(left int) (k *fewKernels, terms int) {
	few, n := &active.few, min(left, rowBlock)
	switch {
	case x.plain():
		return &few.plain, n
	case x.Load != nil || x.Rounded || few.lanes == 0 || n%few.lanes > 0:
		return nil, min(left, tileK)
	case x.BFloat16 != nil:
		return &few.bfloat16, n
	case x.Int8 != nil:
		return &few.int8, n
	}
	return &few.float16, n
}

// of returns the kernel of the most of these rows that there is one for.
func (k *fewKernels) of(rows int) (int, fewKernel) {
	for i := len(k) - 1; ; i-- {
		if 1<<i <= rows && k[i] != nil {
			return 1 << i, k[i]
		}
	}
}

// fewPart is some terms [k0, k0+kn) of a tile of few rows.
type fewPart struct {
	tile
	*scratch
	kernels *fewKernels // nil: b is widened first
	k0, kn  int
	x       []float32 // rows of the left operand
	strideX int
}

// left finds the rows of the left operand. Several are copied, because those of models lie a large power
// of 2 apart, as those of the weight do: all would share few places of a cache.
func (p *fewPart) left() {
	p.x, p.strideX = p.A.Data[p.k0:], p.A.Stride
	if p.M == 1 {
		return
	}
	p.strideX = panelPitch(p.kn)
	for i := range p.M {
		copy(p.a[i*p.strideX:], p.A.Data[i*p.A.Stride+p.k0:][:p.kn])
	}
	p.x = p.a
}

// columns computes columns [j0, j1), in the block.
func (p *fewPart) columns(j0, j1 int) {
	at := j0*p.B.Stride + p.k0
	switch p.kernels {
	case nil:
		p.widened(j0, j1)
	case &active.few.bfloat16:
		p.multiply(p.kernels, bytesAt(p.B.BFloat16, at), 2*p.B.Stride, 0, j1-j0)
	case &active.few.float16:
		p.multiply(p.kernels, bytesAt(p.B.Float16, at), 2*p.B.Stride, 0, j1-j0)
	case &active.few.int8:
		p.multiply(p.kernels, bytesAt(p.B.Int8, at), p.B.Stride, 0, j1-j0)
		for i := range p.M {
			sums := p.block[i*fewColumns:][:j1-j0]
			active.mul(sums, sums, p.B.Scale[j0:j1])
		}
	default:
		p.multiply(p.kernels, bytesAt(p.B.Data, at), 4*p.B.Stride, 0, j1-j0)
	}
}

func bytesAt[T any](x []T, at int) *byte { return (*byte)(unsafe.Pointer(&x[at])) }

// widened computes columns whose rows of b no kernel reads as they are stored.
func (p *fewPart) widened(j0, j1 int) {
	for j := j0; j < j1; j += wideRows {
		rows := min(wideRows, j1-j)
		for r := range rows {
			p.B.widen(p.wide[r*tileK:][:p.kn], (j+r)*p.B.Stride+p.k0)
		}
		p.multiply(&active.few.plain, bytesAt(p.wide[:], 0), 4*tileK, j-j0, rows)
	}
}

// multiply computes n columns of the block, from column j on, with rows that begin at w.
func (p *fewPart) multiply(kernels *fewKernels, w *byte, stride, j, n int) {
	step := n
	if rows, _ := kernels.of(p.M); rows < p.M {
		step = active.few.step
	}
	for at := 0; at < n; at += step {
		from := (*byte)(unsafe.Add(unsafe.Pointer(w), at*stride)) // not carried on: it would end outside of the memory
		for i := 0; i < p.M; {
			rows, kernel := kernels.of(p.M - i)
			kernel(p.kn, &p.x[i*p.strideX], 4*p.strideX, from, stride, min(step, n-at), &p.block[i*fewColumns+j+at],
				4*fewColumns)
			i += rows
		}
	}
}
