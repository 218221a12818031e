package vector_test

import (
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd"
)

// TestTilesAreThoseOfSimd has a product that pays and one that does not, packed and not.
func TestTilesAreThoseOfSimd(t *testing.T) {
	for _, dtype := range []core.DType{core.Float32, core.BFloat16} {
		for _, s := range [][3]int{{600, 700, 700}, {20, 30, 40}} {
			m, n, k := s[0], s[1], s[2]
			a, _ := matrix(core.Float32, m, k)
			b, _ := matrix(dtype, n, k)
			p := vector.TileProduct{Product: vector.Product{M: m, N: n, K: k, A: vector.MatrixOf(a), B: vector.MatrixOf(b),
				TransB: true, C: make([]float32, m*n), StrideC: n}}
			q := simd.TileProduct{Product: simd.Product{M: m, N: n, K: k, A: simd.Matrix{Data: p.A.Data, Stride: k},
				B: simd.Matrix{Data: p.B.Data, BFloat16: p.B.BFloat16, Stride: k}, TransB: true, C: make([]float32, m*n), StrideC: n}}
			if p.Pays() != q.Pays() {
				t.Errorf("%v: it pays %v, want %v", s, p.Pays(), q.Pays())
			}
			simd.MultiplyTiles(q)
			vector.MultiplyTiles(p)
			sameBits(t, fmt.Sprintf("%s %v", dtype, s), p.C, q.C)
			if !vector.HasTiles() || !p.Pays() {
				continue
			}
			p.PackedA, p.PackedB = vector.PackLeft(m, k, p.A, false), vector.PackRight(k, n, p.B, true)
			clear(p.C)
			vector.MultiplyTiles(p)
			sameBits(t, fmt.Sprintf("%s %v packed", dtype, s), p.C, q.C)
			if want := simd.PackRight(k, n, q.B, true).Bytes(); p.PackedB.Bytes() != want {
				t.Errorf("%s: %d bytes, want %d", dtype, p.PackedB.Bytes(), want)
			}
		}
	}
}
