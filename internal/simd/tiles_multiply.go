package simd

import (
	"sync"
	"sync/atomic"
)

// Of the left operand, as much is packed at a time, by all goroutines for all of them. Each of these packs
// a strip of the right operand for itself, which stays in the second-level cache of its core while
// all panels of the left one pass by.
const (
	blockRows   = 2048
	stripPanels = 8
)

// tileBlock is a part of a product: some rows, and a step of the inner dimension.
type tileBlock struct {
	p      *TileProduct
	i0, i1 int
	k0, kn int
	left   *tilePack
	panel  int // the first of left that belongs to the block
}

// tileTask is a part of packing, or of a block.
type tileTask struct {
	pack     *tilePack
	block    *tileBlock
	from, to int // panels to pack, or of the block's rows
	j0, j1   int // panels of columns
}

// tileMultiplication is one call of MultiplyTiles. They are used again for their memory.
type tileMultiplication struct {
	unit     *tileUnit
	products []TileProduct
	blocks   [][]tileBlock // of each product, in the order in which they add to c
	packs    []tilePack
	data     []float32 // of packs
	ranges   []tileRange
	tasks    []tileTask
	next     atomic.Int64
	work     func(worker int)
}

var tileMultiplications = sync.Pool{New: func() any {
	m := &tileMultiplication{unit: tiles()}
	m.work = func(int) { m.compute() }
	return m
}}

// free gives the multiplication back without what it holds on to.
func (m *tileMultiplication) free() {
	clear(m.products)
	clear(m.blocks)
	clear(m.packs)
	clear(m.tasks[:cap(m.tasks)])
	m.products, m.blocks, m.packs = m.products[:0], m.blocks[:0], m.packs[:0]
	tileMultiplications.Put(m)
}

// multiply computes the products in rounds: in each, the next block of every product.
func (m *tileMultiplication) multiply() {
	for i := range m.products {
		m.blocks = append(m.blocks, m.products[i].blocks())
	}
	var batch []*tileBlock
	for round, more := 0, true; more; round++ {
		rows := 0
		for _, blocks := range m.blocks {
			if round >= len(blocks) {
				continue
			}
			b := &blocks[round]
			if rows > 0 && rows+b.i1-b.i0 > blockRows {
				m.multiplyBatch(batch)
				batch, rows = batch[:0], 0
			}
			batch, rows = append(batch, b), rows+b.i1-b.i0
		}
		if more = rows > 0; more {
			m.multiplyBatch(batch)
			batch = batch[:0]
		}
	}
}

// blocks cuts a product. Where it is cut depends on its sizes alone.
func (p *TileProduct) blocks() []tileBlock {
	step := tileStep(p.K)
	var all []tileBlock
	for k0 := 0; k0 < p.K; k0 += step {
		for i := 0; i < p.M; i += blockRows {
			all = append(all, tileBlock{p: p, i0: i, i1: min(i+blockRows, p.M), k0: k0, kn: min(step, p.K-k0)})
		}
	}
	return all
}

// multiplyBatch packs and multiplies blocks of different products.
func (m *tileMultiplication) multiplyBatch(batch []*tileBlock) {
	m.packLeft(batch)
	m.run()
	for _, b := range batch {
		m.cut(b, len(batch))
	}
	m.run()
}

// packLeft finds room for the left operands of all blocks, except for those that the caller has packed,
// and cuts the packing.
func (m *tileMultiplication) packLeft(batch []*tileBlock) {
	m.packs = m.packs[:0]
	size, panels := 0, 0
	for _, b := range batch {
		if t := b.p.PackedA; t != nil {
			b.left, b.panel = &t.blocks[b.k0/tileStep(b.p.K)], b.i0/tileLanes
			continue
		}
		t := packOf(b.p.A, !b.p.TransA, false, b.i0, b.i1-b.i0, b.k0, b.kn)
		m.packs = append(m.packs, t)
		size, panels = size+t.size(), panels+t.panels()
	}
	if size > len(m.data) {
		m.data = aligned(size)
	}
	if panels > len(m.ranges) {
		m.ranges = make([]tileRange, panels)
	}
	next, data, ranges := 0, m.data, m.ranges
	for _, b := range batch {
		if b.p.PackedA != nil {
			continue
		}
		b.left = &m.packs[next]
		data, ranges = b.left.room(data, ranges)
		m.cutPack(b.left)
		next++
	}
}

// cutPack appends the tasks of packing.
func (m *tileMultiplication) cutPack(t *tilePack) {
	for p := 0; p < t.panels(); p += panelsAtOnce {
		m.tasks = append(m.tasks, tileTask{pack: t, from: p, to: min(p+panelsAtOnce, t.panels())})
	}
}

// cut appends the tasks of a block, one of so many: strips of columns, equally wide and as many for each
// goroutine. A block of fewer columns is cut between rows, too, and its strips packed by each.
func (m *tileMultiplication) cut(b *tileBlock, blocks int) {
	rows, cols := ceilDiv(b.i1-b.i0, tileLanes), ceilDiv(b.p.N, tileLanes)
	share := ceilDiv(Threads(), blocks)
	strips := min(cols, ceilDiv(ceilDiv(cols, stripPanels), share)*share)
	bands := min(rows, ceilDiv(share, strips))
	for s := range strips {
		for i := range bands {
			m.tasks = append(m.tasks, tileTask{block: b, from: i * rows / bands, to: (i + 1) * rows / bands,
				j0: s * cols / strips, j1: (s + 1) * cols / strips})
		}
	}
}

// run does all tasks.
func (m *tileMultiplication) run() {
	m.next.Store(0)
	run(min(Threads(), len(m.tasks)), m.work)
	m.tasks = m.tasks[:0]
}

func (m *tileMultiplication) compute() {
	s := tileScratches.Get().(*tileScratch)
	defer tileScratches.Put(s)
	for i := m.next.Add(1) - 1; i < int64(len(m.tasks)); i = m.next.Add(1) - 1 {
		if t := &m.tasks[i]; t.pack != nil {
			t.pack.pack(m.unit, s, t.from, t.to)
		} else {
			t.multiply(m.unit, s)
		}
	}
}
