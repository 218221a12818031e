package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Limits are relative to the sizes of the terms that a value is made of, not to the value,
// which may be next to nothing because they cancel. A kernel computes in float32 or better,
// so that each of its operations adds an error of at most unit times its result; the plain
// formulas here are computed in float64, except for matrix products, which add the same
// error once more.
const (
	unit = 0x1p-24 // half the distance from 1 to the next float32
	// few is the error of an exponential and of a handful of operations after it: simd.Exp
	// is within two units in the last place, which are four of these, and a kernel may have
	// one that is half as good.
	few = 16 * unit
	// tiny is what may get lost where float32 has no normal numbers.
	tiny = 0x1p-126
)

// rounding bounds the error of a sum of n terms, relative to the sum of their magnitudes,
// in whatever order they are added: (n-1)*unit at worst, and, because roundings are as
// often up as down, lambda*sqrt(n)*unit with a probability that falls as exp(-lambda^2/2)
// (N. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019).
// For a running sum of n equal terms, the hardest of practice, lambda = 4 is some twelve
// standard deviations: its partial sums are n/2 in the mean, each rounded by at most a unit.
func rounding(n int) float64 {
	const lambda = 4
	return unit * min(float64(n), lambda*math.Sqrt(float64(n)))
}

// within is the limit of a value whose terms have that size. Terms that float32 cannot
// hold have none.
func within(relative, size float64) float64 {
	if size > math.MaxFloat32 {
		return math.Inf(1)
	}
	return relative*size + tiny
}

// finite reports whether float32 can hold v.
func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat32 }

// seeElements judges two tensors whose rows have cols elements, by a limit for each row.
func seeElements(found []worst, got, want []float32, cols int, limit func(row int) float64) {
	each(found, len(got)/cols, cols, func(lo, hi int, found []worst) {
		for r := lo; r < hi; r++ {
			most := limit(r)
			for i := r * cols; i < (r+1)*cols; i++ {
				found[0].see(i, float64(got[i]), float64(want[i]), most)
			}
		}
	})
}

// norm2 returns the Euclidean norm of x.
func norm2(x []float32) float64 { return math.Sqrt(simd.SumSquares(x)) }

// normInf returns the largest magnitude in x, NaN if there is one: without the sign, the bits
// of float32 are in the order of the numbers, with NaN above infinity.
func normInf(x []float32) float64 {
	var a, b uint32
	for ; len(x) >= 2; x = x[2:] {
		a, b = max(a, math.Float32bits(x[0])&^(1<<31)), max(b, math.Float32bits(x[1])&^(1<<31))
	}
	for _, v := range x {
		a = max(a, math.Float32bits(v)&^(1<<31))
	}
	return float64(math.Float32frombits(max(a, b)))
}

// single widens a tensor to float32, without a copy if it is that already.
func single(t core.Tensor) []float32 {
	if t.DType == core.Float32 {
		return t.Float32s()
	}
	wide := make([]float32, t.Elems())
	t.Load(wide, 0)
	return wide
}

// operand makes a stored matrix, whose rows have cols elements, from its given row on an
// operand of a product.
func operand(t core.Tensor, row, cols int) simd.Matrix {
	m, from := simd.Matrix{Stride: cols}, row*cols
	switch t.DType {
	case core.BFloat16:
		m.BFloat16 = t.Uint16s()[from:]
	case core.Float16:
		m.Float16 = t.Uint16s()[from:]
	default:
		m.Data = t.Float32s()[from:]
	}
	return m
}

// rowNorms returns the norms of n rows of a stored matrix from the given row on.
func rowNorms(t core.Tensor, row, n, cols int) []float64 { return normsOf(t.Load, row, n, cols) }

// normsOf is rowNorms of what load gives.
func normsOf(load func(dst []float32, from int), row, n, cols int) []float64 {
	norms := make([]float64, n)
	simd.Parallel(n, max(1, grain/cols), func(lo, hi int) {
		wide := make([]float32, cols)
		for r := lo; r < hi; r++ {
			load(wide, (row+r)*cols)
			norms[r] = norm2(wide)
		}
	})
	return norms
}
