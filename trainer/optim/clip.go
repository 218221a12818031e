package optim

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/internal/simd"
)

// normBlock is how many elements are summed on their own. It is fixed, so that the
// order of the additions, and with it the last bit, never depends on the threads.
const normBlock = 1 << 14

// GlobalNorm returns the Euclidean norm of all gradients together, summed in float64.
// A NaN or an infinity in a gradient gives a norm that is not finite.
func GlobalNorm(grads [][]float32) float64 {
	var blocks [][]float32
	for _, g := range grads {
		blocks = slices.AppendSeq(blocks, slices.Chunk(g, normBlock))
	}
	sums := make([]float64, len(blocks))
	simd.Parallel(len(blocks), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			sums[i] = simd.SumSquares(blocks[i])
		}
	})
	total := 0.0
	for _, s := range sums {
		total += s
	}
	return math.Sqrt(total)
}

// Squares returns the sums of the squares of parts of a gradient: GlobalNorm is the root of the sum of
// all of them, one gradient after the other.
func Squares(grad []float32) []float64 {
	sums := make([]float64, (len(grad)+normBlock-1)/normBlock)
	simd.Parallel(len(sums), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			sums[i] = simd.SumSquares(grad[i*normBlock : min((i+1)*normBlock, len(grad))])
		}
	})
	return sums
}

// ClipCoefficient returns the factor that brings gradients of this norm down to most,
// as torch.nn.utils.clip_grad_norm_ does: min(1, most/(norm+1e-6)). A most of 0 or less
// turns clipping off. A norm that is NaN gives NaN: such gradients must not be used.
func ClipCoefficient(norm, most float64) float64 {
	if most <= 0 {
		return 1
	}
	return min(1, most/(norm+1e-6))
}
