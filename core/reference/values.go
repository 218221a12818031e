package reference

import (
	"fmt"

	"github.com/seed98097648/tune/core"
)

// float is the arithmetic of a run.
type float interface{ float32 | float64 }

// values widens (or, from float64 storage in a float32 run, narrows) a tensor.
func values[F float](t core.Tensor) []F {
	out := make([]F, t.Elems())
	switch t.DType {
	case core.Float64:
		for i, v := range t.Float64s() {
			out[i] = F(v)
		}
	default:
		single := make([]float32, len(out))
		t.Load(single, 0)
		for i, v := range single {
			out[i] = F(v)
		}
	}
	return out
}

// store rounds v to the tensor's storage type.
func store[F float](t core.Tensor, v []F) {
	if len(v) != t.Elems() {
		panic(fmt.Sprintf("reference: %d values for a tensor of %d", len(v), t.Elems()))
	}
	if t.DType == core.Float64 {
		for i, x := range v {
			t.Float64s()[i] = float64(x)
		}
		return
	}
	single := make([]float32, len(v))
	for i, x := range v {
		single[i] = float32(x)
	}
	t.Store(single, 0)
}

// rounded returns v as it would be read back from storage.
func rounded[F float](d core.DType, v F) F {
	switch d {
	case core.Float32:
		return F(float32(v))
	case core.BFloat16:
		return F(core.BFloat16ToFloat32(core.Float32ToBFloat16(float32(v))))
	case core.Float16:
		return F(core.Float16ToFloat32(core.Float32ToFloat16(float32(v))))
	}
	return v
}

func dot[F float](a, b []F) F {
	var sum F
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
