package simd

import (
	"sync"
	"sync/atomic"
)

// What a product panics with.
const (
	shortA    = "simd: a is shorter than its sizes say"
	shortB    = "simd: b is shorter than its sizes say"
	shortC    = "simd: c is shorter than its sizes say"
	badStride = "simd: a stride is shorter than its row"
	negSize   = "simd: negative size"
)

// A tile of c is computed by one goroutine. tileK is how much of the inner dimension
// is packed at a time: a panel of a and one of b then fit the first-level cache
// together, and all panels of a tile the second-level one. It also fixes the order of
// every sum, so it must not depend on the number of threads; tileM and tileN may.
const (
	tileM   = 32 * mr
	tileN   = 32 * nr
	tileK   = 256
	minTile = 8 * nr

	// serialWork is the m*n*k below which starting goroutines costs more than it saves.
	serialWork = 1 << 15
)

// GemmNN computes c = a*b, or c += a*b: a [m,k], b [k,n], c [m,n], row-major; lda, ldb
// and ldc are the distances between rows.
func GemmNN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	Multiply(Product{M: m, N: n, K: k, A: Matrix{Data: a, Stride: lda}, B: Matrix{Data: b, Stride: ldb}, C: c, StrideC: ldc, Accumulate: accumulate})
}

// GemmNT computes c = a*b^T, or c += a*b^T: a [m,k], b [n,k], c [m,n].
func GemmNT(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	Multiply(Product{M: m, N: n, K: k, A: Matrix{Data: a, Stride: lda}, B: Matrix{Data: b, Stride: ldb}, TransB: true, C: c, StrideC: ldc, Accumulate: accumulate})
}

// GemmTN computes c = a^T*b, or c += a^T*b: a [k,m], b [k,n], c [m,n].
func GemmTN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	Multiply(Product{M: m, N: n, K: k, A: Matrix{Data: a, Stride: lda}, TransA: true, B: Matrix{Data: b, Stride: ldb}, C: c, StrideC: ldc, Accumulate: accumulate})
}

// Matrix is an operand of a product, row-major.
type Matrix struct {
	Data   []float32
	Stride int // elements from one row to the next
	// Load, when set, is used instead of Data: it writes stored elements
	// [from, from+len(dst)) to dst as float32, so that storage in half precision is
	// widened once, on its way into the cache. It is called from several goroutines.
	Load func(dst []float32, from int)
}

// Product is one matrix product C = op(A)*op(B), or C += op(A)*op(B), where op(A) is
// M by K, op(B) is K by N and op transposes if asked. C must not overlap an operand.
type Product struct {
	M, N, K        int
	A, B           Matrix
	TransA, TransB bool // A is stored [K,M]; B is stored [N,K]
	C              []float32
	StrideC        int
	Accumulate     bool
}

// Multiply computes independent products together, so that many small ones, such as
// those of the experts of a layer, keep all cores busy. With K = 0 the sum is empty:
// C becomes zero, or stays as it is when accumulating.
func Multiply(products ...Product) {
	workers, work := Threads(), 0
	for i := range products {
		products[i].check()
		work += products[i].M * products[i].N * products[i].K
	}
	if work < serialWork {
		workers = 1
	}
	tiles := split(products, workers)
	workers = min(workers, len(tiles))
	if workers == 0 {
		return
	}
	var next atomic.Int64
	run(workers, func(int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for i := next.Add(1) - 1; i < int64(len(tiles)); i = next.Add(1) - 1 {
			tiles[i].compute(s)
		}
	})
}

func (p *Product) check() {
	if p.M < 0 || p.N < 0 || p.K < 0 {
		panic(negSize)
	}
	p.A.check(p.M, p.K, p.TransA, shortA)
	p.B.check(p.K, p.N, p.TransB, shortB)
	Matrix{Data: p.C, Stride: p.StrideC}.check(p.M, p.N, false, shortC)
}

func (x Matrix) check(rows, cols int, trans bool, short string) {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return
	}
	if x.Stride < cols {
		panic(badStride)
	}
	if x.Load == nil && len(x.Data) < (rows-1)*x.Stride+cols {
		panic(short)
	}
}

// tile is rows [i0, i1) and columns [j0, j1) of a product.
type tile struct {
	*Product
	i0, i1, j0, j1 int
}

// split cuts products into tiles, smaller ones when there would be too few of them.
func split(products []Product, workers int) []tile {
	var tiles []tile
	rows, cols := tileM, tileN
	for {
		tiles = tiles[:0]
		for i := range products {
			p := &products[i]
			for j := 0; j < p.N; j += cols {
				for i := 0; i < p.M; i += rows {
					tiles = append(tiles, tile{p, i, min(i+rows, p.M), j, min(j+cols, p.N)})
				}
			}
		}
		switch {
		case workers == 1 || len(tiles) >= 3*workers:
			return tiles
		case cols > minTile:
			cols /= 2
		case rows > minTile:
			rows /= 2
		default:
			return tiles
		}
	}
}

// scratch holds the packed operands of one tile.
type scratch struct {
	a    [tileM / mr * tileK][mr]float32
	b    [tileN / nr * tileK][nr]float32
	rows [3][tileK]float32 // widened rows; at least as long as tileM and tileN too
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// compute adds up the tile in steps of tileK.
func (t tile) compute(s *scratch) {
	if t.K == 0 && !t.Accumulate {
		for i := t.i0; i < t.i1; i++ {
			clear(t.C[i*t.StrideC+t.j0 : i*t.StrideC+t.j1])
		}
	}
	for k0 := 0; k0 < t.K; k0 += tileK {
		kn := min(tileK, t.K-k0)
		if t.TransA {
			s.packColumns(s.a[:], t.A, t.i0, t.i1, k0, kn)
		} else {
			s.packRows(s.a[:], t.A, t.i0, t.i1, k0, kn)
		}
		if t.TransB {
			s.packRows(s.b[:], t.B, t.j0, t.j1, k0, kn)
		} else {
			s.packColumns(s.b[:], t.B, t.j0, t.j1, k0, kn)
		}
		add := t.Accumulate || k0 > 0
		for j := t.j0; j < t.j1; j += nr {
			b := s.b[(j-t.j0)/nr*kn:][:kn]
			for i := t.i0; i < t.i1; i += mr {
				sum := kernel(s.a[(i-t.i0)/mr*kn:][:kn], b)
				t.store(&sum, i, j, add)
			}
		}
	}
}

// store writes a block of sums to c, or adds it; what lies outside the tile is padding.
func (t tile) store(sum *[mr][nr]float32, i, j int, add bool) {
	cols := min(nr, t.j1-j)
	for r := range min(mr, t.i1-i) {
		c := t.C[(i+r)*t.StrideC+j:][:cols]
		for q := range c {
			if add {
				c[q] += sum[r][q]
			} else {
				c[q] = sum[r][q]
			}
		}
	}
}
