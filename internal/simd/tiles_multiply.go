package simd

import (
	"sync"
	"sync/atomic"
)

// A block of a product, whose operands are packed together, has at most so many rows and columns
// together, but as many as blockLeast of each. Its panels of b are taken in strips that stay in
// the second-level cache of a core with a panel of a.
const (
	blockLanes  = 3072
	blockLeast  = 1024
	stripPanels = 8
	chunkPanels = 4 // panels of a that one goroutine multiplies with a strip
)

// tileBlock is a part of a product.
type tileBlock struct {
	p              *TileProduct
	i0, i1, j0, j1 int
	k0, kn         int
	packs          [2]*tilePack // of a and of b
	panels         [2]int       // the first of each that belongs to the block
}

// tileTask is a part of packing, or of a block.
type tileTask struct {
	pack     *tilePack
	block    *tileBlock
	from, to int // panels to pack, or of the block's rows
	j0, j1   int // panels of the block's columns
}

// tileMultiplication is one call of MultiplyTiles. They are used again for their memory.
type tileMultiplication struct {
	unit     *tileUnit
	products []TileProduct
	blocks   [][]tileBlock // of each product, in the order in which they add to c
	arenas   [2]tileArena
	tasks    []tileTask
	next     atomic.Int64
	work     func(worker int)
}

// tileArena is memory for packs, and those that are in it.
type tileArena struct {
	packs  []tilePack
	data   []float32
	ranges []tileRange
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
	clear(m.tasks)
	m.products, m.blocks, m.tasks = m.products[:0], m.blocks[:0], m.tasks[:0]
	for side := range m.arenas {
		clear(m.arenas[side].packs)
		m.arenas[side].packs = m.arenas[side].packs[:0]
	}
	tileMultiplications.Put(m)
}

// multiply computes the products in rounds: in each, the next block of every product.
func (m *tileMultiplication) multiply() {
	for i := range m.products {
		m.blocks = append(m.blocks, m.products[i].blocks())
	}
	var batch []*tileBlock
	for round, more := 0, true; more; round++ {
		more = false
		size := 0
		for _, blocks := range m.blocks {
			if round >= len(blocks) {
				continue
			}
			more = true
			b := &blocks[round]
			if lanes := b.i1 - b.i0 + b.j1 - b.j0; size > 0 && size+lanes > blockLanes {
				m.multiplyBatch(batch)
				batch, size = batch[:0], 0
			}
			batch, size = append(batch, b), size+b.i1-b.i0+b.j1-b.j0
		}
		if size > 0 {
			m.multiplyBatch(batch)
			batch = batch[:0]
		}
	}
}

// blocks cuts a product. Where it is cut depends on its sizes alone.
func (p *TileProduct) blocks() []tileBlock {
	high := max(blockLeast, (blockLanes-p.N)/tileLanes*tileLanes)
	wide := max(blockLeast, (blockLanes-min(p.M, high))/tileLanes*tileLanes)
	step := tileStep(p.K)
	var all []tileBlock
	for k0 := 0; k0 < p.K; k0 += step {
		for i := 0; i < p.M; i += high {
			for j := 0; j < p.N; j += wide {
				all = append(all, tileBlock{p: p, i0: i, i1: min(i+high, p.M), j0: j, j1: min(j+wide, p.N), k0: k0,
					kn: min(step, p.K-k0)})
			}
		}
	}
	return all
}

// operand returns what the block needs of an operand, not yet packed.
func (b *tileBlock) operand(side int) tilePack {
	if side == 0 {
		return tilePack{p: b.p, x: b.p.A, along: !b.p.TransA, lane0: b.i0, lanes: b.i1 - b.i0, k0: b.k0, kn: b.kn}
	}
	return tilePack{p: b.p, x: b.p.B, along: b.p.TransB, right: true, lane0: b.j0, lanes: b.j1 - b.j0, k0: b.k0, kn: b.kn}
}

// multiplyBatch packs and multiplies blocks of different products.
func (m *tileMultiplication) multiplyBatch(batch []*tileBlock) {
	for side := range m.arenas {
		m.place(batch, side)
	}
	m.run()
	for _, b := range batch {
		m.cut(b, len(batch))
	}
	m.run()
}

// place finds room for an operand of all blocks, and cuts the packing, except for what is packed by
// the caller, or was for the block before.
func (m *tileMultiplication) place(batch []*tileBlock, side int) {
	arena := &m.arenas[side]
	var wanted []tilePack
	for _, b := range batch {
		if packed := []*Tiles{b.p.PackedA, b.p.PackedB}[side]; packed != nil {
			b.packs[side], b.panels[side] = &packed.blocks[b.k0/tileStep(b.p.K)], []int{b.i0, b.j0}[side]/tileLanes
		} else {
			wanted = append(wanted, b.operand(side))
		}
	}
	if !(len(wanted) == 1 && len(arena.packs) == 1 && arena.packs[0].same(&wanted[0])) {
		arena.fill(wanted)
		for i := range arena.packs {
			m.cutPack(&arena.packs[i])
		}
	}
	next := 0
	for _, b := range batch {
		if b.packs[side] == nil {
			b.packs[side] = &arena.packs[next]
			next++
		}
	}
}

// same reports whether both are the same part of the same operand.
func (t *tilePack) same(other *tilePack) bool {
	return t.p == other.p && t.lane0 == other.lane0 && t.lanes == other.lanes && t.k0 == other.k0
}

// fill makes room for packs in place of those before.
func (a *tileArena) fill(packs []tilePack) {
	a.packs = append(a.packs[:0], packs...)
	size, panels := 0, 0
	for i := range packs {
		size, panels = size+packs[i].size(), panels+packs[i].panels()
	}
	if size > len(a.data) {
		a.data = aligned(size)
	}
	if panels > len(a.ranges) {
		a.ranges = make([]tileRange, panels)
	}
	data, ranges := a.data, a.ranges
	for i := range a.packs {
		t := &a.packs[i]
		t.data, t.ranges = data[:t.size()], ranges[:t.panels()]
		data, ranges = data[t.size():], ranges[t.panels():]
	}
}

// cutPack appends the tasks of packing.
func (m *tileMultiplication) cutPack(t *tilePack) {
	for p := 0; p < t.panels(); p += panelsAtOnce {
		m.tasks = append(m.tasks, tileTask{pack: t, from: p, to: min(p+panelsAtOnce, t.panels())})
	}
}

// cut appends the tasks of a block, one of so many: some for each goroutine, for they do not all get
// on at the same pace.
func (m *tileMultiplication) cut(b *tileBlock, blocks int) {
	rows, cols := ceilDiv(b.i1-b.i0, tileLanes), ceilDiv(b.j1-b.j0, tileLanes)
	wanted := ceilDiv(4*Threads(), blocks)
	if Threads() == 1 {
		wanted = 1
	}
	strips := min(cols, max(ceilDiv(cols, stripPanels), ceilDiv(wanted, rows)))
	chunk := max(1, min(chunkPanels, rows*strips/wanted))
	for s := range strips {
		for i := 0; i < rows; i += chunk {
			m.tasks = append(m.tasks, tileTask{block: b, from: i, to: min(i+chunk, rows), j0: s * cols / strips,
				j1: (s + 1) * cols / strips})
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
