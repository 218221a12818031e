package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRowsAgreeWithFloat64Sums has rows of every number that a kernel takes and of odd ones, the last of which end where
// memory ends. A row of several has the bits that it has alone, and so have sums of which a part was added before.
func TestRowsAgreeWithFloat64Sums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 22))
		for _, s := range [][3]int{{1, 1, 1}, {2, 16, 128}, {3, 5, 37}, {8, 7, 64}, {11, 20, 17}, {2, 3, 0}, {0, 2, 4}, {4, 0, 4}} {
			m, n, k := s[0], s[1], s[2]
			x, w, p := operand(t, rng, m, k, 3, false), operand(t, rng, n, k, 5, false), operand(t, rng, m, n, 2, false)
			dots, sums := guarded(t, make([]float32, m*n)), guarded(t, make([]float32, m*k))
			DotRows(m, n, k, x.Data, x.Stride, w.Data, w.Stride, dots, n)
			AddRows(m, n, k, p.Data, p.Stride, w.Data, w.Stride, sums, k)
			again, first := make([]float32, m*n), n/3
			parts := make([]float32, m*k)
			for i := range m {
				DotRows(1, n, k, x.Data[i*x.Stride:], x.Stride, w.Data, w.Stride, again[i*n:], n)
				AddRows(1, first, k, p.Data[i*p.Stride:], p.Stride, w.Data, w.Stride, parts[i*k:], k)
				if n > 0 {
					AddRows(1, n-first, k, p.Data[i*p.Stride+first:], p.Stride, w.Data[first*w.Stride:], w.Stride, parts[i*k:], k)
				}
				for j := range n {
					want := 0.0
					for c := range k {
						want += at(x, i, c, false) * at(w, j, c, false)
					}
					if got := float64(dots[i*n+j]); math.Abs(got-want) > float64(k+1)*0x1p-22 {
						t.Fatalf("%v: product %d, %d is %v, want %v", s, i, j, got, want)
					}
				}
				for c := range k {
					want := 0.0
					for j := range n {
						want += at(p, i, j, false) * at(w, j, c, false)
					}
					if got := float64(sums[i*k+c]); math.Abs(got-want) > float64(n+1)*0x1p-21 {
						t.Fatalf("%v: sum %d, %d is %v, want %v", s, i, c, got, want)
					}
				}
			}
			if !slices.Equal(again, dots) || !slices.Equal(parts, sums) {
				t.Fatalf("%v: other bits alone, or in parts", s)
			}
		}
	})
}
