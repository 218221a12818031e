package simd

import "sync"

// packing cuts an operand into panels. A panel holds a few rows of op(a), or columns of
// op(b), its lanes, side by side: its p-th group of step elements is what the kernel
// needs at step p. Elements of a group that stand for no lane, in the last panel and
// where step exceeds width, are undefined; the sums they end up in are thrown away.
type packing struct {
	kernel      *gemmKernel
	wide        []float32 // room for wideRows rows of tileK
	dst         []float32
	x           Matrix
	lanes       int // of the whole operand
	width, step int // lanes and elements of a group
	pitch       int // elements from one panel to the next
	k0, kn      int // the part of the inner dimension
}

// panelPitch returns how far apart panels of so many elements lie: a cache line more than
// that, for panels that are written side by side would share few places of a cache.
func panelPitch(elements int) int { return elements + 16 }

// packLeft packs rows [from, to) of the left operand.
func (p packing) packLeft(from, to int, trans bool) left {
	if !trans && p.kernel.part != nil { // only to be widened
		for i := from; i < to; i++ {
			p.widen(p.dst[(i-from)*p.kn:][:p.kn], i, p.k0)
		}
		return left{data: p.dst, lane: p.kn, step: 1}
	}
	p.pack(from, to, !trans)
	return left{data: p.dst, lane: 1, step: p.step, panel: p.pitch}
}

// packRight packs columns [from, to) of the right operand; the last panel may be narrow.
func (p packing) packRight(from, to int, trans bool) {
	last := from + (to-from)/p.width*p.width
	p.pack(from, last, trans)
	if last < to {
		p.dst = p.dst[(last-from)/p.width*p.pitch:]
		p.width = p.kernel.width(to - last)
		p.step = p.width
		p.pack(last, to, trans)
	}
}

// width returns how wide a panel of b with so many columns is.
func (kernel *gemmKernel) width(cols int) int {
	if kernel.part == nil {
		return kernel.cols
	}
	return ceilDiv(cols, kernel.lanes) * kernel.lanes
}

// pack packs lanes [from, to). along tells that each lane is a row of the stored matrix.
func (p packing) pack(from, to int, along bool) {
	if from == to {
		return
	}
	if along {
		p.packAlong(from, to)
	} else {
		p.packAcross(from, to)
	}
}

// packAlong transposes.
func (p packing) packAlong(from, to int) {
	for i := from; i < to; i += p.width {
		panel := p.dst[(i-from)/p.width*p.pitch:]
		for r := 0; r < min(p.width, to-i); r += 8 {
			rows := min(8, p.width-r, to-i-r)
			src, stride := p.rows(i+r, rows, p.k0, p.kn)
			p.kernel.transpose(&panel[r], p.step, &src[0], stride, rows, p.kn)
		}
	}
}

// packAcross copies.
func (p packing) packAcross(from, to int) {
	group, safe := p.kn, p.lanes-from // safe is what may be read of each row
	if !p.x.plain() {
		group, safe = wideRows, tileK
	}
	for k := 0; k < p.kn; k += group {
		n := min(group, p.kn-k)
		src, stride := p.rows(p.k0+k, n, from, to-from)
		p.copyPanels(p.dst[k*p.step:], src, stride, to-from, safe, n)
	}
}

// copyPanels packs n rows of width elements. It copies more than that, as long as the
// elements are there to be read: whole panels, then what whole vectors of the last one
// there are, then single elements.
func (p packing) copyPanels(dst, src []float32, stride, width, safe, n int) {
	copyPanels, skip := p.kernel.copyPanels, p.pitch
	unit := p.kernel.unit
	piece, panels := ceilDiv(p.width, unit)*unit, 0
	if safe >= piece {
		panels = min(width/p.width, (safe-piece)/p.width+1)
	}
	if panels > 0 {
		copyPanels(&dst[0], p.step, skip, &src[0], stride, p.width, piece, panels, n)
	}
	for at := panels * p.width; at < width; at += p.width {
		last, end := dst[at/p.width*skip:], min(p.width, width-at)
		full := ceilDiv(end, unit) * unit
		if at+full > safe {
			full -= unit
		}
		if full > 0 {
			copyPanels(&last[0], p.step, unit, &src[at], stride, unit, unit, full/unit, n)
		}
		for k := range n {
			for i := full; i < end; i++ {
				last[k*p.step+i] = src[k*stride+at+i]
			}
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
		p.widen(p.wide[r*tileK:][:length], row+r, col)
	}
	return p.wide, tileK
}

// widen widens a part of a row of the stored matrix, and asks for that of a later one: rows are too far apart to be
// guessed.
func (p packing) widen(dst []float32, row, col int) {
	p.x.prefetch((row+wideRows)*p.x.Stride+col, len(dst))
	p.x.widen(dst, row*p.x.Stride+col)
}

// prefetch asks for n stored elements, if there are so many, to be brought into the caches.
func (x Matrix) prefetch(from, n int) {
	switch {
	case from+n <= len(x.BFloat16):
		Prefetch(x.BFloat16[from : from+n])
	case from+n <= len(x.Float16):
		Prefetch(x.Float16[from : from+n])
	case from+n <= len(x.Int8):
		Prefetch(x.Int8[from : from+n])
	}
}

// plain reports whether the elements are multiplied as they lie: they are stored as float32.
func (x Matrix) plain() bool { return !x.Rounded && x.float32s() }

// float32s reports whether the elements are stored as float32.
func (x Matrix) float32s() bool {
	return x.BFloat16 == nil && x.Float16 == nil && x.Int8 == nil && x.Load == nil
}

// widen writes stored elements [from, from+len(dst)), which are not plain, to dst: at most tileK.
func (x Matrix) widen(dst []float32, from int) {
	switch {
	case x.Load != nil:
		x.Load(dst, from)
	case x.BFloat16 != nil:
		BFloat16ToFloat32(dst, x.BFloat16[from:from+len(dst)])
		return
	case x.Int8 != nil:
		Int8ToFloat32(dst, x.Int8[from:from+len(dst)], x.Scale[from/x.Stride])
	case x.Float16 != nil:
		Float16ToFloat32(dst, x.Float16[from:from+len(dst)])
	default:
		x.round(dst, x.Data[from:from+len(dst)])
		return
	}
	if x.Rounded {
		x.round(dst, dst)
	}
}

// round writes elements to dst as bfloat16 holds them.
func (Matrix) round(dst, src []float32) {
	bits := roundings.Get().(*[tileK]uint16)
	defer roundings.Put(bits)
	Float32ToBFloat16(bits[:len(src)], src)
	BFloat16ToFloat32(dst, bits[:len(src)])
}

// roundings are used again, so that a product allocates nothing.
var roundings = sync.Pool{New: func() any { return new([tileK]uint16) }}
