package simd

import "unsafe"

// tileScratch holds what one goroutine needs for its tiles.
type tileScratch struct {
	wide, turned []float32 // rows of an operand, widened, and then transposed
	extremes     [panelsAtOnce][32]uint32
	plan         splitPlan // of what is packed now: on the stack it would be garbage, as the kernels are variables
	room         []float32 // for the kernels: the sums of a block, and the sizes of tiles
	rows         int       // that the sizes are for
}

var tileScratches = stock[tileScratch]{make: func() *tileScratch {
	return &tileScratch{wide: aligned(tileRows * tileK), turned: aligned(tileRows * tileK),
		room: aligned(4*tileFloats + 16)}
}}

// tileStrips is the memory for the strips of right operands that a goroutine packs, one at a time. Others
// that help it with the last one read it, too, so that it belongs to the call.
type tileStrips struct {
	pack   tilePack
	data   []float32
	ranges [stripPanels]tileRange
}

// prepare packs the strip, unless it is packed.
func (t *tileTask) prepare(u *tileUnit, s *tileScratch, own *tileStrips) {
	b := t.block
	if t.right, t.panel = b.right, t.from; t.right == nil {
		if own.data == nil {
			own.data = aligned(stripPanels * tileK / tileDepth * 3 * partsFloats)
		}
		col := t.from * tileLanes
		own.pack = packOf(b.p.B, b.p.TransB, true, col, min(t.to*tileLanes, b.p.N)-col, b.k0, b.kn)
		own.pack.room(own.data, own.ranges[:])
		for p := 0; p < t.to-t.from; p += panelsAtOnce {
			own.pack.pack(u, s, p, min(p+panelsAtOnce, t.to-t.from))
		}
		t.right, t.panel = &own.pack, 0
	}
	t.ready.Store(true)
}

// tileStrip is a task of a block with what the goroutine needs that computes it.
type tileStrip struct {
	*tileBlock
	task *tileTask
	u    *tileUnit
	s    *tileScratch
}

// multiply computes rows of the strip until there are none that nobody has taken.
func (t *tileTask) multiply(u *tileUnit, s *tileScratch) {
	x := tileStrip{t.block, t, u, s}
	rows := x.rows()
	for i := int(t.row.Add(chunkPanels)) - chunkPanels; i < rows; i = int(t.row.Add(chunkPanels)) - chunkPanels {
		for r := i; r < min(i+chunkPanels, rows); r++ {
			x.multiplyRows(r, t.to-t.from)
		}
	}
}

// multiplyRows computes the product of a panel of the left operand with n of the right one: those whose
// elements fit to each other on tiles, and the others otherwise.
func (x *tileStrip) multiplyRows(i, n int) {
	fits := func(j int) bool { return x.left.ranges[x.panel+i].fits(x.task.right.ranges[x.task.panel+j], x.kn) }
	for j := 0; j < n; {
		end := j + 1
		for end < n && fits(end) == fits(j) {
			end++
		}
		if fits(j) {
			x.onTiles(i, j, end)
		} else {
			x.ordinarily(i, j, end)
		}
		j = end
	}
	if x.p.Finish != nil && x.k0+x.kn == x.p.K {
		row, rows, col, cols := x.place(i, 0, n)
		tile{&x.p.Product, row, row + rows, col, col + cols}.finish(row, row+rows)
	}
}

// place returns which rows and columns of c the panel i of the left operand and panels [j, end) of the strip
// are for.
func (x *tileStrip) place(i, j, end int) (row, rows, col, cols int) {
	row, col = x.i0+i*tileLanes, (x.task.from+j)*tileLanes
	return row, min(tileLanes, x.i1-row), col, min((x.task.from+end)*tileLanes, x.p.N) - col
}

// onTiles computes rows of c.
func (x *tileStrip) onTiles(i, j, end int) {
	row, rows, col, cols := x.place(i, j, end)
	x.s.sizes(rows)
	i += x.panel
	right := x.task.right
	ahead := x.left.at(min(i+1, x.left.panels()-1), 0)
	whole := cols
	if rest := cols % tileLanes; rest > 0 && rest <= tileRows {
		whole -= rest // one tile wide
	}
	for wide, n := range []int{cols - whole, whole} {
		if n == 0 {
			continue
		}
		at := 0
		if wide == 0 {
			at = whole
		}
		x.u.multiply[(rows-1)/tileRows][wide][x.left.parts/2][right.parts/2](x.left.steps(), x.left.at(i, 0),
			right.at(x.task.panel+j+at/tileLanes, 0), right.pitch()*4, &x.p.C[row*x.p.StrideC+col+at], x.p.StrideC, rows, n,
			x.adds(), (*byte)(unsafe.Pointer(&x.s.room[0])), ahead)
	}
}

// ordinarily computes rows of c as Multiply does.
func (x *tileStrip) ordinarily(i, j, end int) {
	row, rows, col, cols := x.place(i, j, end)
	p := &Product{M: rows, N: cols, K: x.kn, A: x.p.A.part(row, x.k0, x.p.TransA), TransA: x.p.TransA,
		B: x.p.B.part(x.k0, col, x.p.TransB), TransB: x.p.TransB, C: x.p.C[row*x.p.StrideC+col:], StrideC: x.p.StrideC,
		Accumulate: x.adds()}
	s := scratches.get()
	defer scratches.put(s)
	tile{p, 0, rows, 0, cols}.compute(active.gemm, s)
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
	x.Data = x.Data[skip(len(x.Data)):]
	x.BFloat16, x.Float16 = x.BFloat16[skip(len(x.BFloat16)):], x.Float16[skip(len(x.Float16)):]
	if x.Int8 != nil {
		x.Int8, x.Scale = x.Int8[from:], x.Scale[row:]
	}
	return x
}
