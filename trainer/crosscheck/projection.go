package crosscheck

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// directions is how many random directions rows are compared along. An error in a row is
// missed if it is at right angles to all of them, within rounding.
const directions = 4

// random returns a matrix [n, directions]: columns of random numbers with
// norm 1, so that by Cauchy and Schwarz the product of an error with one of them is not
// larger than the error. They are the same in every run.
func random(n int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), 12))
	r := make([]float32, n*directions)
	for m := range directions {
		sum := 0.0
		for i := range n {
			v := rng.NormFloat64()
			r[i*directions+m] = float32(v)
			sum += v * v
		}
		for i := range n {
			r[i*directions+m] /= float32(math.Sqrt(sum))
		}
	}
	return r
}

// along returns the products of n rows of a matrix, with cols elements each, and the
// directions r [cols, directions].
func along(rows simd.Matrix, n, cols int, r []float32) []float32 {
	out := make([]float32, n*directions)
	simd.Multiply(simd.Product{M: n, N: directions, K: cols, A: rows, B: dense(r, directions), C: out,
		StrideC: directions})
	return out
}

// dense is a float32 matrix whose rows have cols elements.
func dense(x []float32, cols int) simd.Matrix { return simd.Matrix{Data: x, Stride: cols} }

// seeRows judges the rows of an output of float32 by their products with the directions
// r: want [rows, directions], and a limit for each row.
func seeRows(found []worst, got core.Tensor, cols int, r, want []float32, limit func(row int) float64) {
	found[0].row = true
	n := got.Elems() / cols
	have := along(dense(got.Float32s(), cols), n, cols, r)
	each(found, n, cols, func(lo, hi int, found []worst) {
		for i := lo; i < hi; i++ {
			most := limit(i)
			for m := range directions {
				found[0].see(i, float64(have[i*directions+m]), float64(want[i*directions+m]), most)
			}
		}
	})
}
