package simd

import "math"

// serialWork is the m*n*k below which starting goroutines costs more than it saves.
const serialWork = 1 << 16

// split cuts the products into tiles and returns how many goroutines they are worth.
func (m *multiplication) split(threads int) int {
	total := 0.0
	for i := range m.products {
		total += m.products[i].work()
	}
	if total < serialWork {
		threads = 1
	}
	m.tiles = m.tiles[:0]
	for i := range m.products {
		p := &m.products[i]
		if p.M == 0 || p.N == 0 {
			continue
		}
		// A product alone is cut for the threads; one of several for its share of them
		// and finer, since the others have sizes of their own.
		share := threads
		if len(m.products) > 1 && threads > 1 {
			share = int(math.Ceil(3 * float64(threads) * p.work() / total))
		}
		m.tiles = p.cut(m.tiles, max(share, 1), m.kernel)
	}
	return min(threads, len(m.tiles))
}

// work returns the number of multiplications, a float64 because it can be large.
func (p *Product) work() float64 { return float64(p.M) * float64(p.N) * float64(p.K) }

// cut appends the tiles of a product to be shared by so many goroutines.
func (p *Product) cut(tiles []tile, share int, kernel *gemmKernel) []tile {
	if p.byRows() {
		return p.cutRows(tiles, share)
	}
	best, height, width := math.Inf(1), 0, 0
	least, rows := ceilDiv(p.N, p.widest(kernel)), kernel.rows
	if p.across {
		rows = acrossRows
	}
	for strips := least; strips <= least+share; strips++ {
		w := ceilDiv(ceilDiv(p.N, strips), kernel.cols) * kernel.cols
		for bands := 1; bands <= share; bands++ {
			h := ceilDiv(ceilDiv(p.M, bands), rows) * rows
			rounds := ceilDiv(ceilDiv(p.N, w)*ceilDiv(p.M, h), share)
			if t := float64(rounds) * p.tileTime(min(h, p.M), w); t < best {
				best, height, width = t, h, w
			}
		}
	}
	for j := 0; j < p.N; j += width {
		for i := 0; i < p.M; i += height {
			tiles = append(tiles, tile{p, i, min(i+height, p.M), j, min(j+width, p.N)})
		}
	}
	return tiles
}

// widest returns how many columns a tile may have: as many as keep its part of b in its
// room. A short inner dimension makes them wide, so that a is read less often. So do few
// rows, of which packing b is a larger part: whole rows of b are read faster than pieces.
func (p *Product) widest(kernel *gemmKernel) int {
	columns := tileN
	switch {
	case kernel.narrow && p.TransA:
		columns = narrowWideN
	case kernel.narrow:
		columns = narrowTileN
	case p.TransA || p.M <= tileN && !p.TransB:
		columns = wideN
	}
	width := roomB / wideN * columns / panelPitch(kernel.cols*innerStep(p.K)) * kernel.cols
	if !p.B.plain() && !p.TransB {
		width = min(width, tileK/kernel.cols*kernel.cols) // what a row may have to be widened
	}
	return width
}

// tileTime estimates what a tile takes for each step of the inner dimension, in the time
// of one multiplication of vectors: to pack an element takes about half of that.
func (p *Product) tileTime(height, width int) float64 {
	return float64(height)*float64(width)/32 + float64(height+width)/2
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
