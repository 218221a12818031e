package vector_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/keep"
	"github.com/seed98097648/tune/core/vector"
)

// TestASquareWeightIsKeptForBothDirections: only that it is stored the other way tells its two products apart.
func TestASquareWeightIsKeptForBothDirections(t *testing.T) {
	const m, n = 600, 700
	a, _ := matrix(core.Float32, m, n)
	weight, _ := matrix(core.Float32, n, n)
	weight.Content = core.NewContent()
	var kept vector.Kept
	before := keep.Held()
	for range 2 {
		for _, trans := range []bool{true, false} {
			want := vector.TileProduct{Reused: true, Product: vector.Product{M: m, N: n, K: n, A: vector.MatrixOf(a),
				B: vector.MatrixOf(weight), TransB: trans, C: make([]float32, m*n), StrideC: n}}
			got := want
			got.C = make([]float32, m*n)
			kept.Right(&got, 0, weight)
			vector.MultiplyTiles(want)
			vector.MultiplyTiles(got)
			sameBits(t, "kept", got.C, want.C)
		}
	}
	if held := keep.Held() - before; held != 2*vector.KeptBytes(n, n, core.Float32) {
		t.Errorf("%d bytes are kept", held)
	}
}

// TestKeptBytesAreThoseOfAPackedOperand: of float32, or of the three bfloat16 that it becomes for tiles, and what fills up
// the last panel.
func TestKeptBytesAreThoseOfAPackedOperand(t *testing.T) {
	for _, dtype := range []core.DType{core.Float32, core.BFloat16} {
		for _, s := range [][2]int{{512, 1536}, {1000, 700}, {3, 2000}} {
			k, n := s[0], s[1]
			least := 4 * k * n
			if vector.HasTiles() {
				weight, _ := matrix(dtype, k, n)
				least = vector.PackRight(k, n, vector.MatrixOf(weight), false).Bytes()
			}
			got := int(vector.KeptBytes(k, n, dtype))
			if most := least + least/4 + 8*64*n; got < least || got > most {
				t.Errorf("%s %v: %d bytes, want %d to %d", dtype, s, got, least, most)
			}
		}
	}
}
