package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFewRowsAgreeWithFloat64Sums has rows longer than what is added up in float32, any
// storage of the weight, sums that are added to, and a function that sees them.
func TestFewRowsAgreeWithFloat64Sums(t *testing.T) {
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(9, 10))
	storage := map[string]func(x Matrix) Matrix{
		"float32": func(x Matrix) Matrix { return x },
		"bfloat16": func(x Matrix) Matrix {
			h := make([]uint16, len(x.Data))
			Float32ToBFloat16(h, x.Data)
			BFloat16ToFloat32(x.Data, h)
			return Matrix{Stride: x.Stride, BFloat16: guarded(t, h)}
		},
		"loaded": func(x Matrix) Matrix {
			return Matrix{Stride: x.Stride, Load: func(dst []float32, from int) { copy(dst, x.Data[from:from+len(dst)]) }}
		},
	}
	for name, store := range storage {
		eachVariant(t, func(t *testing.T) {
			for _, s := range brief([][3]int{{1, 1, 1}, {1, 37, 100}, {2, 5, rowBlock + 3}, {FewRows, 130, 2*rowBlock + 1},
				{FewRows, 9, 40}, {3, 1, 40}}) {
				m, n, k := s[0], s[1], s[2]
				a, b := operand(t, rng, m, k, 3, false), operand(t, rng, k, n, 2, true)
				stored := store(b)
				before := random(rng, m*n)
				for _, accumulate := range []bool{false, true} {
					var first []float32
					for _, threads := range []int{1, 2, 5} {
						SetThreads(threads)
						c := guarded(t, before)
						Multiply(Product{M: m, N: n, K: k, A: a, B: stored, TransB: true, Dots: true, C: c, StrideC: n,
							Accumulate: accumulate,
							Finish: func(c []float32, row, col int) {
								for j := range c {
									c[j] += float32(1000*row + col + j)
								}
							}})
						if first == nil {
							first = c
						} else if !slices.Equal(c, first) {
							t.Fatalf("%v: %d threads give other bits than 1", s, threads)
						}
					}
					for i := range m {
						for j := range n {
							want := float64(1000*i + j)
							if accumulate {
								want += float64(before[i*n+j])
							}
							for p := range k {
								want += at(a, i, p, false) * at(b, p, j, true)
							}
							if got := float64(first[i*n+j]); math.Abs(got-want) > (float64(k)+2000)*0x1p-22 {
								t.Fatalf("%v accumulate %v: c[%d,%d] = %v, want %v", s, accumulate, i, j, got, want)
							}
						}
					}
				}
			}
		}, name)
	}
}

// BenchmarkFewRows multiplies few rows with a weight that no cache holds, and reports the
// bytes of the weight that are read in a second.
func BenchmarkFewRows(b *testing.B) {
	defer SetThreads(0)
	const k, n = 2048, 16384
	plain, half := make([]float32, n*k), make([]uint16, n*k)
	for i := range plain { // pages that were never written all show the same page of zeros
		plain[i], half[i] = 1, 0x3f80
	}
	weights := []struct {
		name string
		Matrix
		size float64
	}{{"float32", Matrix{Data: plain, Stride: k}, 4}, {"bfloat16", Matrix{BFloat16: half, Stride: k}, 2}}
	for _, w := range weights {
		for _, m := range []int{1, 2, 4, 8, 16} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/rows=%d/threads=%d", w.name, m, threads), func(b *testing.B) {
					SetThreads(threads)
					p := Product{M: m, N: n, K: k, A: Matrix{Data: make([]float32, m*k), Stride: k}, B: w.Matrix, TransB: true,
						Dots: true, C: make([]float32, m*n), StrideC: n}
					for b.Loop() {
						Multiply(p)
					}
					b.ReportMetric(w.size*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}
