package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// needTiles skips a test where there are none.
func needTiles(t testing.TB) {
	if !HasTiles() {
		t.Skip("this machine has no units for tiles, or does not let this process use them")
	}
}

// multiplyOnTiles computes products on tiles that MultiplyTiles would not, too.
func multiplyOnTiles(products []TileProduct) {
	m := tileMultiplications.get()
	defer m.free()
	m.products = append(m.products, products...)
	m.multiply()
}

// tileSizes are rows, columns and the inner dimension around the sizes of tiles and of the blocks of
// them, and larger than what is packed at a time.
func tileSizes() [][3]int {
	var all [][3]int
	edges := []int{1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 97, 129}
	for i, m := range edges {
		for j, n := range edges {
			all = append(all, [3]int{m, n, edges[(3*i+5*j)%len(edges)]})
		}
	}
	for n := range 130 {
		all = append(all, [3]int{1 + n%37, 1 + n%41, 1 + n}, [3]int{1 + n, 1 + n%29, 1 + n%53},
			[3]int{1 + n%31, 1 + n, 1 + n%33})
	}
	return brief(append(all, [3]int{100, 300, 513}, [3]int{40, 3500, 40}, [3]int{3200, 70, 33}, [3]int{1100, 1060, 40},
		[3]int{50, 270, 1100}))
}

// TestTilesAgreeWithFloat64Sums holds products on tiles to a bound for each element by itself: what
// float32 sums of k terms may be off, and what is left out of each term.
func TestTilesAgreeWithFloat64Sums(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(1, 9))
	for _, f := range forms {
		for i, s := range tileSizes() {
			m, n, k := s[0], s[1], s[2]
			accumulate := i%2 == 0
			a, b := operand(t, rng, m, k, i%5, f.transA), operand(t, rng, k, n, i%3, f.transB)
			p := Product{M: m, N: n, K: k, A: a, B: b, TransA: f.transA, TransB: f.transB,
				C: guarded(t, random(rng, m*(n+2)-2)), StrideC: n + 2, Accumulate: accumulate}
			before := slices.Clone(p.C)
			multiplyOnTiles([]TileProduct{{Product: p}})
			if e := tileError(&p, before); e != "" {
				t.Fatalf("%s %v accumulate %v: %s", f.name, s, accumulate, e)
			}
		}
	}
}

// tileError compares a product with sums in float64, and says where it is not as near as it must be.
func tileError(p *Product, before []float32) string {
	for e, got := range p.C {
		i, j := e/p.StrideC, e%p.StrideC
		want, size := float64(before[e]), 0.0
		if j < p.N {
			if !p.Accumulate {
				want = 0
			}
			size = math.Abs(want)
			for q := range p.K {
				term := at(p.A, i, q, p.TransA) * at(p.B, q, j, p.TransB)
				want, size = want+term, size+math.Abs(term)
			}
		}
		if w := float32(want); w == got || w != w && got != got {
			continue
		}
		if !(math.Abs(float64(got)-want) <= size*float64(p.K+4)*0x1p-24+float64(p.K)*0x1p-149) {
			return fmt.Sprintf("c[%d,%d] = %v, want %v", i, j, got, want)
		}
	}
	return ""
}

// onTiles computes a copy of the product, without operands packed before, and returns C.
func onTiles(p Product) []float32 {
	p.C = slices.Clone(p.C)
	multiplyOnTiles([]TileProduct{{Product: p}})
	return p.C
}

// TestTilesErrAsVectorsDo compares errors on average, relative to the sizes of the terms: those of tiles
// may not be above those of the ordinary product.
func TestTilesErrAsVectorsDo(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(4, 9))
	const m, n, k = 64, 64, 512
	p := Product{M: m, N: n, K: k, A: operand(t, rng, m, k, 0, false), B: operand(t, rng, k, n, 0, false),
		C: make([]float32, m*n), StrideC: n}
	ordinary := p
	ordinary.C = make([]float32, m*n)
	Multiply(ordinary)
	tiles := onTiles(p)
	var errs [2]float64
	for e, want := range products(m, n, k, p.A, false, p.B, false) {
		errs[0] += math.Abs(float64(ordinary.C[e]) - want)
		errs[1] += math.Abs(float64(tiles[e]) - want)
	}
	t.Logf("errors of %.3g on tiles, %.3g ordinarily", errs[1]/(m*n), errs[0]/(m*n))
	if errs[1] > errs[0] {
		t.Error("they are larger on tiles")
	}
}

func TestTilesGiveTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	needTiles(t)
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(3, 9))
	for _, f := range forms {
		var group []TileProduct
		for _, s := range [][3]int{{130, 110, 600}, {33, 700, 600}, {2100, 40, 64}, {17, 16, 1500}} {
			m, n, k := s[0], s[1], s[2]
			group = append(group, TileProduct{Product: Product{M: m, N: n, K: k, A: numbers(rng, m, k, f.transA),
				B: numbers(rng, k, n, f.transB), TransA: f.transA, TransB: f.transB, StrideC: n}})
		}
		group[1].B.Data[700] = 1e-40 // computed as Multiply does
		var first [][]float32
		for _, threads := range []int{1, 2, 3, 7, 16} {
			SetThreads(threads)
			for i := range group {
				group[i].C = make([]float32, group[i].M*group[i].N)
			}
			multiplyOnTiles(group)
			for i, p := range group {
				if threads == 1 {
					first = append(first, p.C)
				} else if !slices.Equal(p.C, first[i]) {
					t.Errorf("%s, product %d: %d threads give other bits than 1", f.name, i, threads)
				}
			}
		}
		for i, p := range group {
			if !slices.Equal(onTiles(p.Product), p.C) {
				t.Errorf("%s, product %d of the group differs from the same product alone", f.name, i)
			}
		}
	}
}

func TestPackedOperandsGiveTheBitsOfThoseThatAreNot(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(5, 9))
	for _, f := range forms {
		for _, s := range [][3]int{{50, 301, 600}, {2100, 20, 33}, {1, 1, 1}} {
			m, n, k := s[0], s[1], s[2]
			p := Product{M: m, N: n, K: k, A: operand(t, rng, m, k, 1, f.transA), B: operand(t, rng, k, n, 1, f.transB),
				TransA: f.transA, TransB: f.transB, C: random(rng, m*n), StrideC: n, Accumulate: true}
			p.B.Data[0] = 1e-39
			want := onTiles(p)
			a, b := PackLeft(m, k, p.A, f.transA), PackRight(k, n, p.B, f.transB)
			for _, packed := range []TileProduct{{p, a, nil, false}, {p, nil, b, true}, {p, a, b, false}} {
				packed.C = slices.Clone(p.C)
				multiplyOnTiles([]TileProduct{packed})
				if !slices.Equal(packed.C, want) {
					t.Errorf("%s %v: other bits with a packed %v, b packed %v", f.name, s, packed.PackedA != nil,
						packed.PackedB != nil)
				}
			}
			if got := b.Bytes(); got < 6*n*k || got > 6*(n+tileLanes)*(k+tileDepth*len(b.blocks)) {
				t.Errorf("%s %v: b takes %d bytes", f.name, s, got)
			}
		}
	}
}

// TestOneLeftOperandOfSeveralProducts, packed before or once for the call: some of the other operands are packed
// for all goroutines, and some are not.
func TestOneLeftOperandOfSeveralProducts(t *testing.T) {
	needTiles(t)
	const m, k = 70, 90
	rng := rand.New(rand.NewPCG(5, 10))
	a := operand(t, rng, m, k, 1, false)
	packed := PackLeft(m, k, a, false)
	var want [][]float32
	var group, unpacked []TileProduct
	for _, n := range []int{16 * tileLanes, 8 * tileLanes, 3, 40 * tileLanes, 1} {
		p := Product{M: m, N: n, K: k, A: a, B: operand(t, rng, k, n, 1, true), TransB: true, C: make([]float32, m*n), StrideC: n}
		want = append(want, onTiles(p))
		group = append(group, TileProduct{Product: p, PackedA: packed})
		unpacked = append(unpacked, TileProduct{Product: p})
	}
	for _, group := range [][]TileProduct{group, unpacked} {
		for from := range group {
			for to := from + 1; to <= len(group); to++ {
				multiplyOnTiles(group[from:to])
				for i, p := range group[from:to] {
					if !slices.Equal(p.C, want[from+i]) {
						t.Errorf("products %d to %d: other bits of product %d than by itself", from, to, from+i)
					}
					clear(p.C)
				}
			}
		}
	}
}

func TestTilesOfAnotherProductPanic(t *testing.T) {
	needTiles(t)
	x := Matrix{Data: make([]float32, 64), Stride: 8}
	p := Product{M: 8, N: 8, K: 8, A: x, B: x, C: make([]float32, 64), StrideC: 8}
	left, right := PackLeft(8, 8, x, false), PackRight(8, 8, x, false)
	MultiplyTiles(TileProduct{p, left, right, false})
	for name, wrong := range map[string]TileProduct{
		"sides":  {p, right, left, false},
		"a size": {p, nil, PackRight(8, 7, x, false), false},
		"depth":  {p, PackLeft(8, 7, x, false), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			MultiplyTiles(wrong)
		})
	}
}
