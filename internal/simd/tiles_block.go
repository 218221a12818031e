package simd

import (
	"slices"
	"sync"
	"unsafe"
)

// tileScratch holds what one goroutine needs for its tiles.
type tileScratch struct {
	wide, turned []float32 // rows of an operand, widened, and then transposed
	extremes     [panelsAtOnce][32]uint32
	room         []float32 // for the kernels: the sums of a block, and the sizes of tiles
	rows         int       // that the sizes are for
}

var tileScratches = sync.Pool{New: func() any {
	return &tileScratch{wide: aligned(tileRows * tileK), turned: aligned(tileRows * tileK), room: aligned(4*tileFloats + 16)}
}}

// multiply computes a task of a block.
func (t *tileTask) multiply(u *tileUnit, s *tileScratch) {
	b := t.block
	all := noElements
	for j := t.j0; j < t.j1; j++ {
		all = all.with(b.packs[1].ranges[b.panels[1]+j])
	}
	for i := t.from; i < t.to; i++ {
		x := b.packs[0].ranges[b.panels[0]+i]
		if all.fits(x, b.kn) {
			b.multiply(u, s, i, t.j0, t.j1)
		} else {
			t.carefully(u, s, i, x)
		}
		b.finish(i, t.j0, t.j1)
	}
}

// carefully computes the blocks of a panel of a, whose elements have a range, with those panels of b that
// fit it on tiles, and the others otherwise.
func (t *tileTask) carefully(u *tileUnit, s *tileScratch, i int, x tileRange) {
	b := t.block
	fits := func(j int) bool { return b.packs[1].ranges[b.panels[1]+j].fits(x, b.kn) }
	for j := t.j0; j < t.j1; {
		end := j + 1
		for end < t.j1 && fits(end) == fits(j) {
			end++
		}
		if fits(j) {
			b.multiply(u, s, i, j, end)
		} else {
			b.ordinarily(i, j, end)
		}
		j = end
	}
}

// place returns which rows and columns of c the panel i of a and the panels [j, end) of b are for.
func (b *tileBlock) place(i, j, end int) (row, rows, col, cols int) {
	row, col = b.i0+i*tileLanes, b.j0+j*tileLanes
	return row, min(tileLanes, b.i1-row), col, min(b.j0+end*tileLanes, b.j1) - col
}

// multiply computes rows of c on tiles.
func (b *tileBlock) multiply(u *tileUnit, s *tileScratch, i, j, end int) {
	row, rows, col, cols := b.place(i, j, end)
	s.sizes(rows)
	left, right := b.packs[0], b.packs[1]
	i, j = i+b.panels[0], j+b.panels[1]
	ahead := left.at(min(i+1, left.panels()-1), 0)
	panel := right.pitch() * 4
	high := (rows - 1) / tileRows
	whole := cols
	if rest := cols % tileLanes; rest > 0 && rest <= tileRows {
		whole -= rest // one tile wide
	}
	for wide, n := range []int{cols - whole, whole} {
		if n == 0 {
			continue
		}
		first := j
		if wide == 0 {
			first += whole / tileLanes
		}
		c := &b.p.C[row*b.p.StrideC+col+(first-j)*tileLanes]
		u.multiply[high][wide][left.parts()/2][right.parts()/2](left.steps(), left.at(i, 0), right.at(first, 0), panel, c,
			b.p.StrideC, rows, n, b.adds(), (*byte)(unsafe.Pointer(&s.room[0])), ahead)
	}
}

// adds reports whether the block adds to c.
func (b *tileBlock) adds() bool { return b.p.Accumulate || b.k0 > 0 }

// sizes writes the sizes of tiles for so many rows, as the instruction that loads them has them: a palette,
// 1, from byte 16 on the bytes of a row of each tile, and from byte 48 on its rows.
func (s *tileScratch) sizes(rows int) {
	if s.rows == rows {
		return
	}
	s.rows = rows
	sizes := (*[64]byte)(unsafe.Pointer(&s.room[4*tileFloats]))
	sizes[0] = 1
	low, high := byte(min(rows, tileRows)), byte(rows-tileRows)
	if rows <= tileRows {
		high = tileRows // not used
	}
	for t, n := range []byte{low, low, high, high, low, high, tileRows, tileRows} {
		sizes[16+2*t], sizes[48+t] = 64, n
	}
}

// ordinarily computes rows of c as Multiply does.
func (b *tileBlock) ordinarily(i, j, end int) {
	row, rows, col, cols := b.place(i, j, end)
	p := &Product{M: rows, N: cols, K: b.kn, A: b.p.A.part(row, b.k0, b.p.TransA), TransA: b.p.TransA,
		B: b.p.B.part(b.k0, col, b.p.TransB), TransB: b.p.TransB, C: b.p.C[row*b.p.StrideC+col:], StrideC: b.p.StrideC,
		Accumulate: b.adds()}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	tile{p, 0, rows, 0, cols}.compute(active.gemm, s)
}

// part returns op(x) from a row and a column on.
func (x Matrix) part(row, col int, trans bool) Matrix {
	if trans {
		row, col = col, row
	}
	from := row*x.Stride + col
	if load := x.Load; load != nil {
		x.Load = func(dst []float32, at int) { load(dst, from+at) }
		return x
	}
	skip := func(n int) int { return min(from, n) }
	x.Data, x.BFloat16, x.Float16 = x.Data[skip(len(x.Data)):], x.BFloat16[skip(len(x.BFloat16)):], x.Float16[skip(len(x.Float16)):]
	if x.Int8 != nil {
		x.Int8, x.Scale = x.Int8[from:], x.Scale[row:]
	}
	return x
}

// finish hands rows of c to Finish once they are complete.
func (b *tileBlock) finish(i, j, end int) {
	if b.p.Finish == nil || b.k0+b.kn < b.p.K {
		return
	}
	row, rows, col, cols := b.place(i, j, end)
	tile{&b.p.Product, row, row + rows, col, col + cols}.finish(row, row+rows)
}

// rangeOf returns the range of what splitAMX keeps.
func rangeOf(extremes *[32]uint32) tileRange {
	most, least := slices.Max(extremes[:tileRows]), slices.Min(extremes[tileRows:])
	return rangeOfBits(most, least)
}
