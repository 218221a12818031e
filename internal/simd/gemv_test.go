package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// weightStorage has what stores a weight in each way, and puts what it stored in x.
var weightStorage = map[string]func(t testing.TB, x Matrix) Matrix{
	"float32": func(_ testing.TB, x Matrix) Matrix { return x },
	"bfloat16": func(t testing.TB, x Matrix) Matrix {
		h := make([]uint16, len(x.Data))
		Float32ToBFloat16(h, x.Data)
		BFloat16ToFloat32(x.Data, h)
		return Matrix{Stride: x.Stride, BFloat16: guarded(t, h)}
	},
	"float16": func(t testing.TB, x Matrix) Matrix {
		h := make([]uint16, len(x.Data))
		Float32ToFloat16(h, x.Data)
		Float16ToFloat32(x.Data, h)
		return Matrix{Stride: x.Stride, Float16: guarded(t, h)}
	},
	"int8": func(t testing.TB, x Matrix) Matrix {
		q, scale := make([]int8, len(x.Data)), make([]float32, ceilDiv(len(x.Data), x.Stride))
		for i, v := range x.Data {
			row := i / x.Stride
			scale[row] = float32(row%3+1) / 256
			q[i] = int8(max(-127, min(127, v*128))) // of padding: anything
			x.Data[i] = scale[row] * float32(q[i])
		}
		return Matrix{Stride: x.Stride, Int8: guarded(t, q), Scale: guarded(t, scale)}
	},
	"rounded": func(_ testing.TB, x Matrix) Matrix {
		for from := 0; from < len(x.Data); from += tileK {
			part := x.Data[from:min(from+tileK, len(x.Data))]
			Matrix{}.round(part, part)
		}
		return Matrix{Data: x.Data, Stride: x.Stride, Rounded: true}
	},
	"loaded": func(_ testing.TB, x Matrix) Matrix {
		return Matrix{Stride: x.Stride, Load: func(dst []float32, from int) { copy(dst, x.Data[from:from+len(dst)]) }}
	},
}

// TestFewRowsAgreeWithFloat64Sums has rows longer than what is added up in float32, any
// storage of the weight, sums that are added to, and a function that sees them.
func TestFewRowsAgreeWithFloat64Sums(t *testing.T) {
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(9, 10))
	for name, store := range weightStorage {
		eachVariant(t, func(t *testing.T) {
			for _, s := range brief([][3]int{{1, 1, 1}, {1, 37, 100}, {2, 5, fewTerms + 3}, {FewRows, 130, 3*fewTerms + 1},
				{FewRows, 9, 40}, {3, 1, 40}, {4, 70, 48}, {7, fewMost + 66, 32}, {8, 6, 2 * fewTerms}, {11, 3, 15}, {5, 2, 8}}) {
				m, n, k := s[0], s[1], s[2]
				a, b := operand(t, rng, m, k, 3, false), operand(t, rng, k, n, 2*rng.IntN(2), true)
				stored := store(t, b)
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
									c[j] += float32(500*row + col + j)
								}
							}})
						if first == nil {
							first = c
						} else if !slices.Equal(c, first) {
							t.Fatalf("%v: %d threads give other bits than 1", s, threads)
						}
					}
					sums := products(m, n, k, a, false, b, true)
					for i := range m {
						for j := range n {
							want := float64(500*i+j) + sums[i*n+j]
							if accumulate {
								want += float64(before[i*n+j])
							}
							if got := float64(first[i*n+j]); !(math.Abs(got-want) <= (float64(k)+2000)*0x1p-22) {
								t.Fatalf("%v accumulate %v: c[%d,%d] = %v, want %v", s, accumulate, i, j, got, want)
							}
						}
					}
				}
			}
		}, name)
	}
}

// TestARowHasTheSameBitsInCompany: those of a text do not change with how many others are decoded beside
// it. It has every number of rows and all ends of vectors and blocks.
func TestARowHasTheSameBitsInCompany(t *testing.T) {
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(11, 12))
	for name, store := range weightStorage {
		eachVariant(t, func(t *testing.T) {
			for _, k := range []int{1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 128, 1023, fewTerms + 16, 3*fewTerms + 5} {
				n := 1 + rng.IntN(8)
				if k == 64 {
					n = fewColumns + 5
				}
				a, b := operand(t, rng, FewRows, k, 1, false), operand(t, rng, k, n, rng.IntN(2), true)
				stored := store(t, b)
				product := func(from, rows int) []float32 {
					c := guarded(t, make([]float32, rows*n))
					Multiply(Product{M: rows, N: n, K: k, A: Matrix{Data: a.Data[from*a.Stride:], Stride: a.Stride}, B: stored,
						TransB: true, Dots: true, C: c, StrideC: n})
					return c
				}
				SetThreads(1)
				var alone []float32
				for row := range FewRows {
					alone = append(alone, product(row, 1)...)
				}
				for rows := 2; rows <= FewRows; rows++ {
					SetThreads(1 + rows%3)
					from := rng.IntN(FewRows - rows + 1)
					if got := product(from, rows); !slices.Equal(got, alone[from*n:(from+rows)*n]) {
						t.Fatalf("%d rows of %d terms have other bits than each alone", rows, k)
					}
				}
			}
		}, name)
	}
}
