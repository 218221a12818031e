package simd

// packing cuts an operand into panels. A panel holds a few rows of op(a), or columns of
// op(b), its lanes, side by side: its p-th group of step elements is what the kernel
// needs at step p. Elements of a group that stand for no lane, in the last panel and
// where step exceeds width, are undefined; the sums they end up in are thrown away.
type packing struct {
	kernel      *gemmKernel
	s           *scratch
	dst         []float32
	x           Matrix
	lanes       int // of the whole operand
	width, step int // lanes and elements of a group
	k0, kn      int // the part of the inner dimension
}

// pack packs lanes [from, to). along tells that each lane is a row of the stored matrix.
func (p packing) pack(from, to int, along bool) {
	if along {
		p.packAlong(from, to)
	} else {
		p.packAcross(from, to)
	}
}

func (p packing) packAlong(from, to int) {
	for i := from; i < to; i += p.width {
		panel := p.dst[(i-from)/p.width*p.step*p.kn:]
		for r := 0; r < min(p.width, to-i); r += 8 {
			rows := min(8, p.width-r, to-i-r)
			src, stride := p.rows(i+r, rows, p.k0, p.kn)
			p.kernel.transpose(&panel[r], p.step, &src[0], stride, rows, p.kn)
		}
	}
}

func (p packing) packAcross(from, to int) {
	for k := 0; k < p.kn; k += 8 {
		n := min(8, p.kn-k)
		src, stride := p.rows(p.k0+k, n, from, to-from)
		safe := p.lanes - from // what may be read of each row
		if !p.x.plain() {
			safe = tileK
		}
		for i := 0; i < to-from; i += p.width {
			p.copyRows(p.dst[(i/p.width*p.kn+k)*p.step:], src[i:], stride, min(p.width, to-from-i), safe-i, n)
		}
	}
}

// copyRows copies n rows of width elements in full vectors, as far as that reads no
// more than safe elements of a row.
func (p packing) copyRows(dst, src []float32, stride, width, safe, n int) {
	unit := p.kernel.unit
	full := ceilDiv(width, unit) * unit
	if full > safe {
		full -= unit
	}
	if full > 0 {
		p.kernel.copyRows(&dst[0], p.step, &src[0], stride, full, n)
	}
	for k := range n {
		for i := full; i < width; i++ {
			dst[k*p.step+i] = src[k*stride+i]
		}
	}
}

// rows returns n rows of the stored matrix, from column col on, and their stride,
// widened unless stored as float32.
func (p packing) rows(row, n, col, length int) ([]float32, int) {
	x := p.x
	if x.plain() {
		return x.Data[row*x.Stride+col:], x.Stride
	}
	for r := range n {
		x.widen(p.s.wide[r*tileK:][:length], (row+r)*x.Stride+col)
	}
	return p.s.wide[:], tileK
}

// plain reports whether the elements are stored as float32.
func (x Matrix) plain() bool { return x.BFloat16 == nil && x.Float16 == nil && x.Load == nil }

// widen writes stored elements [from, from+len(dst)), which are not float32, to dst.
func (x Matrix) widen(dst []float32, from int) {
	switch {
	case x.Load != nil:
		x.Load(dst, from)
	case x.BFloat16 != nil:
		BFloat16ToFloat32(dst, x.BFloat16[from:from+len(dst)])
	default:
		Float16ToFloat32(dst, x.Float16[from:from+len(dst)])
	}
}
