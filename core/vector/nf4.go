package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// NF4 is a weight in NF4, which products widen on its way into the cache; see core.NF4Sizes.
type NF4 struct {
	stored simd.NF4
	load   func(dst []float32, from int) // made once: a product allocates nothing
}

// NF4Of returns a weight [N, K] in NF4 with what its elements are made of, as an operand. It is q that is used for it, and
// that a kernel keeps from call to call.
func NF4Of(q *NF4, weight, absmax, scale core.Tensor) Matrix {
	if q.load == nil {
		q.load = q.stored.Load
	}
	q.stored = simd.NF4{Codes: weight.Data, Absmax: absmax.Int8s(), Scale: scale.Float32s(), Matrices: 1}
	return Matrix{NF4: q, Stride: weight.Shape[1]}
}
