package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRowsAreThoseOfOneByOne: rows that lie a stride apart have the same bits as each by itself, and what lies between
// them is neither read nor written.
func TestRowsAreThoseOfOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		return x
	}
	eachVariant(t, func(t *testing.T) {
		for _, s := range [][3]int{{0, 3, 5}, {3, 0, 5}, {3, 4, 0}, {1, 1, 1}, {2, 7, 33}, {9, 5, 64}, {17, 3, 100}, {5, 20, 16}} {
			m, n, k := s[0], s[1], s[2]
			x, w, p := random(m*(k+3)+1), random(n*(k+2)+1), random(m*(n+1)+1)
			y := random(m*(n+4) + 1)
			want := slices.Clone(y)
			for i := range m {
				for j := range n {
					DotRows(1, 1, k, x[i*(k+3):], k, w[j*(k+2):], k, want[i*(n+4)+j:], 1)
				}
			}
			DotRows(m, n, k, x, k+3, w, k+2, y, n+4)
			if !slices.Equal(y, want) {
				t.Errorf("DotRows of %v: other bits than one by one", s)
			}
			y = random(m*(k+4) + 1)
			want = slices.Clone(y)
			for i := range m {
				for j := range n {
					Axpy(p[i*(n+1)+j], w[j*(k+2):][:k], want[i*(k+4):][:k])
				}
			}
			AddRows(m, n, k, p, n+1, w, k+2, y, k+4)
			if !slices.Equal(y, want) {
				t.Errorf("AddRows of %v: other bits than one by one", s)
			}
		}
	})
}

func TestRowsBeyondTheirSlicesPanic(t *testing.T) {
	for what, f := range map[string]func(){
		"x": func() { DotRows(2, 1, 8, make([]float32, 15), 8, make([]float32, 8), 8, make([]float32, 2), 1) },
		"w": func() { DotRows(1, 2, 8, make([]float32, 8), 8, make([]float32, 15), 8, make([]float32, 2), 2) },
		"y": func() { DotRows(2, 2, 1, make([]float32, 2), 1, make([]float32, 2), 1, make([]float32, 3), 2) },
		"v": func() { AddRows(1, 2, 8, make([]float32, 2), 2, make([]float32, 15), 8, make([]float32, 8), 8) },
		"p": func() { AddRows(2, 2, 1, make([]float32, 3), 2, make([]float32, 2), 1, make([]float32, 2), 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is too short, and nothing panics", what)
				}
			}()
			f()
		}()
	}
}
