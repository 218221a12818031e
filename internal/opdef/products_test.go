package opdef

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSwiGLUAtZeroIsHalfASlope(t *testing.T) {
	dgate, dup := SwiGLUGradient([]float64{3}, []float64{0}, []float64{5})
	if dgate[0] != 3*5/2. || dup[0] != 0 {
		t.Errorf("gradients %v and %v, want 7.5 and 0", dgate, dup)
	}
}

// TestProductsOfManyRowsAreThoseOfOneAfterTheOther, to the bit: what a reference gives does not depend on how many
// rows it takes at once.
func TestProductsOfManyRowsAreThoseOfOneAfterTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	for rows := range 10 {
		for _, n := range []int{1, 3, 18} {
			width := 7
			m, v, out := random(rows*n), random(rows), random(n)
			want := slices.Clone(out)
			for i, vi := range v {
				Axpy(want, vi, m[i*n:][:n])
			}
			if AddTransposed(out, m, v); !slices.Equal(out, want) {
				t.Errorf("%d rows of %d: %v, want %v", rows, n, out, want)
			}
			a, b, sum := random(rows*n), random(rows*width), random(n*width)
			want = slices.Clone(sum)
			for i := range rows {
				AddOuter(want, a[i*n:][:n], b[i*width:][:width])
			}
			if AddOuters(sum, a, b, rows); !slices.Equal(sum, want) {
				t.Errorf("%d outer products of %d and %d: %v, want %v", rows, n, width, sum, want)
			}
		}
	}
}
