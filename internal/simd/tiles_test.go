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
		all = append(all, [3]int{1 + n%37, 1 + n%41, 1 + n}, [3]int{1 + n, 1 + n%29, 1 + n%53}, [3]int{1 + n%31, 1 + n, 1 + n%33})
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
		if math.IsNaN(want) && math.IsNaN(float64(got)) || want == float64(got) {
			continue
		}
		if !(math.Abs(float64(got)-want) <= size*float64(p.K+4)*0x1p-24+float64(p.K)*0x1p-149) {
			return fmt.Sprintf("c[%d,%d] = %v, want %v", i, j, got, want)
		}
	}
	return ""
}
