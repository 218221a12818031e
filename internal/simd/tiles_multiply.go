package simd

import (
	"sync/atomic"
	"unsafe"
)

// Of the left operand, as much is packed at a time, by all goroutines for all of them. Each of these packs
// a strip of the right operand for itself, which stays in the second-level cache of its core while
// all panels of the left one pass by.
const (
	blockRows   = 2048
	stripPanels = 8
	chunkPanels = 2 // panels of the left operand that a goroutine takes at a time
)

// tileBlock is a part of a product: some rows, and a step of the inner dimension.
type tileBlock struct {
	p           *TileProduct
	i0, i1      int
	k0, kn      int
	left, right *tilePack  // right is nil where strips of it are packed one by one
	panel       int        // the first of left that belongs to the block
	shares      bool       // its right operand is packed for all goroutines
	twin        *tileBlock // one before it in its batch, of the same part of the same left operand; or nil
}

// rows and cols return how many panels of the operands the block has.
func (b *tileBlock) rows() int { return ceilDiv(b.i1-b.i0, tileLanes) }
func (b *tileBlock) cols() int { return ceilDiv(b.p.N, tileLanes) }

// tileTask is a part of packing, or a strip of columns of a block.
type tileTask struct {
	pack     *tilePack
	from, to int // panels
	block    *tileBlock
	right    *tilePack // the strip; its first panel, and whether it is there
	panel    int
	ready    atomic.Bool
	row      atomic.Int64 // the next panel of the left operand
}

// tileMultiplication is one call of MultiplyTiles. They are used again for their memory.
type tileMultiplication struct {
	unit     *tileUnit
	products []TileProduct
	others   []Product     // not for tiles
	blocks   [][]tileBlock // of each product, in the order in which they add to c
	cuts     []tileBlock   // where they lie
	batch    []*tileBlock
	packs    []tilePack // those that all goroutines share
	data     []float32  // of packs
	ranges   []tileRange
	tasks    []tileTask
	strips   []tileStrips // of each goroutine
	next     atomic.Int64
	work     func(worker int)
}

var tileMultiplications = stock[tileMultiplication]{make: func() *tileMultiplication {
	m := &tileMultiplication{unit: tiles()}
	m.work = m.compute
	return m
}}

// free gives the multiplication back without what it holds on to.
func (m *tileMultiplication) free() {
	clear(m.products)
	clear(m.others)
	clear(m.blocks)
	clear(m.cuts)
	clear(m.batch[:cap(m.batch)])
	clear(m.packs)
	clear(m.tasks[:cap(m.tasks)])
	for i := range m.strips {
		m.strips[i].pack = tilePack{}
	}
	m.products, m.others, m.blocks, m.cuts = m.products[:0], m.others[:0], m.blocks[:0], m.cuts[:0]
	m.packs, m.tasks = m.packs[:0], m.tasks[:0]
	tileMultiplications.put(m)
}

// multiply computes the products in rounds: in each, the next block of every product.
func (m *tileMultiplication) multiply() {
	for i := range m.products {
		before := len(m.cuts)
		m.cuts = m.products[i].blocks(m.cuts)
		m.blocks = append(m.blocks, m.cuts[before:])
	}
	batch := m.batch[:0]
	for round, more := 0, true; more; round++ {
		rows := 0
		for _, blocks := range m.blocks {
			if round >= len(blocks) {
				continue
			}
			b := &blocks[round]
			b.findTwin(batch)
			if rows > 0 && b.twin == nil && rows+b.i1-b.i0 > blockRows {
				m.multiplyBatch(batch)
				batch, rows = batch[:0], 0
			}
			if batch = append(batch, b); b.twin == nil {
				rows += b.i1 - b.i0
			}
		}
		if more = rows > 0; more {
			m.multiplyBatch(batch)
			batch = batch[:0]
		}
	}
	m.batch = batch
}

// findTwin looks for a block whose left operand need not be packed again.
func (b *tileBlock) findTwin(batch []*tileBlock) {
	for _, t := range batch {
		if t.p.TransA == b.p.TransA && t.p.A.same(b.p.A) && t.p.PackedA == b.p.PackedA &&
			[4]int{t.i0, t.i1, t.k0, t.kn} == [4]int{b.i0, b.i1, b.k0, b.kn} {
			b.twin = t
			return
		}
	}
}

// same reports whether both are one matrix in memory.
func (x Matrix) same(y Matrix) bool {
	return x.Load == nil && y.Load == nil && x.Stride == y.Stride && x.Rounded == y.Rounded &&
		unsafe.SliceData(x.Data) == unsafe.SliceData(y.Data) &&
		unsafe.SliceData(x.BFloat16) == unsafe.SliceData(y.BFloat16) &&
		unsafe.SliceData(x.Float16) == unsafe.SliceData(y.Float16) &&
		unsafe.SliceData(x.Int8) == unsafe.SliceData(y.Int8) && unsafe.SliceData(x.Scale) == unsafe.SliceData(y.Scale)
}

// blocks appends the blocks of a product. Where it is cut depends on its sizes alone.
func (p *TileProduct) blocks(all []tileBlock) []tileBlock {
	step := tileStep(p.K)
	for k0 := 0; k0 < p.K; k0 += step {
		for i := 0; i < p.M; i += blockRows {
			all = append(all, tileBlock{p: p, i0: i, i1: min(i+blockRows, p.M), k0: k0, kn: min(step, p.K-k0)})
		}
	}
	return all
}

// multiplyBatch packs and multiplies blocks of different products.
func (m *tileMultiplication) multiplyBatch(batch []*tileBlock) {
	m.share(batch)
	m.run()
	for _, b := range batch {
		m.cut(b)
	}
	m.run()
}

// share cuts the packing of what all goroutines need: the left operands, each once, and those right operands
// that have fewer strips than there are goroutines.
func (m *tileMultiplication) share(batch []*tileBlock) {
	m.packs = m.packs[:0]
	size, panels := 0, 0
	for _, b := range batch {
		if b.p.PackedA == nil && b.twin == nil {
			m.packs = append(m.packs, packOf(b.p.A, !b.p.TransA, false, b.i0, b.i1-b.i0, b.k0, b.kn))
		}
		b.shares = b.p.PackedB == nil && ceilDiv(b.cols(), stripPanels)*len(batch) < 2*Threads()
		if b.shares {
			m.packs = append(m.packs, packOf(b.p.B, b.p.TransB, true, 0, b.p.N, b.k0, b.kn))
		}
	}
	for i := range m.packs {
		size, panels = size+m.packs[i].size(), panels+m.packs[i].panels()
	}
	if size > len(m.data) {
		m.data = aligned(size)
	}
	if panels > len(m.ranges) {
		m.ranges = make([]tileRange, panels)
	}
	data, ranges := m.data, m.ranges
	for i := range m.packs {
		data, ranges = m.packs[i].room(data, ranges)
		m.cutPack(&m.packs[i])
	}
	m.hand(batch)
}

// hand gives blocks the operands that are shared, or packed by the caller.
func (m *tileMultiplication) hand(batch []*tileBlock) {
	packs := m.packs
	for _, b := range batch {
		step := b.k0 / tileStep(b.p.K)
		if b.p.PackedA != nil {
			b.left, b.panel = &b.p.PackedA.blocks[step], b.i0/tileLanes
		} else if b.twin != nil {
			b.left = b.twin.left
		} else {
			b.left, packs = &packs[0], packs[1:]
		}
		if b.p.PackedB != nil {
			b.right = &b.p.PackedB.blocks[step]
		} else if b.shares {
			b.right, packs = &packs[0], packs[1:]
		}
	}
}

// cutPack appends the tasks of packing.
func (m *tileMultiplication) cutPack(t *tilePack) {
	n := t.panels()
	width := min(panelsAtOnce, ceilDiv(n, Threads()))
	for p := 0; p < n; p += width {
		m.tasks = append(m.tasks, tileTask{pack: t, from: p, to: min(p+width, n)})
	}
}

// cut appends the tasks of a block: strips of columns, of equal widths.
func (m *tileMultiplication) cut(b *tileBlock) {
	cols := b.cols()
	strips := ceilDiv(cols, stripPanels)
	for s := range strips {
		m.tasks = append(m.tasks, tileTask{block: b, from: s * cols / strips, to: (s + 1) * cols / strips})
	}
}

// run does all tasks.
func (m *tileMultiplication) run() {
	workers := Threads()
	for len(m.strips) < workers {
		m.strips = append(m.strips, tileStrips{})
	}
	m.next.Store(0)
	run(workers, m.work)
	m.tasks = m.tasks[:0]
}

// compute does tasks, and then helps with those that others have begun.
func (m *tileMultiplication) compute(worker int) {
	s := tileScratches.get()
	defer tileScratches.put(s)
	for i := m.next.Add(1) - 1; i < int64(len(m.tasks)); i = m.next.Add(1) - 1 {
		t := &m.tasks[i]
		if t.pack != nil {
			t.pack.pack(m.unit, s, t.from, t.to)
			continue
		}
		t.prepare(m.unit, s, &m.strips[worker])
		t.multiply(m.unit, s)
	}
	for i := range m.tasks {
		if t := &m.tasks[i]; t.ready.Load() {
			t.multiply(m.unit, s)
		}
	}
}
