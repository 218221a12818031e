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
			dots, sums := guarded(t, random(rng, m*n)), guarded(t, make([]float32, m*k)) // the former are overwritten
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
					if got := float64(dots[i*n+j]); !(math.Abs(got-want) <= float64(k+1)*0x1p-22) {
						t.Fatalf("%v: product %d, %d is %v, want %v", s, i, j, got, want)
					}
				}
				for c := range k {
					want := 0.0
					for j := range n {
						want += at(p, i, j, false) * at(w, j, c, false)
					}
					if got := float64(sums[i*k+c]); !(math.Abs(got-want) <= float64(n+1)*0x1p-21) {
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
		for _, s := range [][3]int{{0, 3, 5}, {3, 0, 5}, {3, 4, 0}, {1, 1, 1}, {2, 7, 33}, {9, 5, 64}, {17, 3, 100}, {5, 20, 16}, {2, 35, 150}, {3, 33, 272}} {
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
