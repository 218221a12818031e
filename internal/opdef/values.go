package opdef

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
)

// Float is the arithmetic of a run.
type Float interface{ float32 | float64 }

// Values widens (or, from float64 storage in a float32 run, narrows) a tensor.
func Values[F Float](t core.Tensor) []F {
	out := make([]F, t.Elems())
	Widen(out, t, 0)
	return out
}

// Widen is Values of elements [from, from+len(dst)).
func Widen[F Float](dst []F, t core.Tensor, from int) {
	switch t.DType {
	case core.Float64:
		for i, v := range t.Float64s()[from:][:len(dst)] {
			dst[i] = F(v)
		}
	case core.Float32:
		for i, v := range t.Float32s()[from:][:len(dst)] {
			dst[i] = F(v)
		}
	case core.BFloat16:
		for i, v := range t.Uint16s()[from:][:len(dst)] {
			dst[i] = F(core.BFloat16ToFloat32(v))
		}
	case core.Float16:
		for i, v := range t.Uint16s()[from:][:len(dst)] {
			dst[i] = F(core.Float16ToFloat32(v))
		}
	default:
		single := make([]float32, len(dst))
		t.Load(single, from)
		for i, v := range single {
			dst[i] = F(v)
		}
	}
}

// Store rounds v to the tensor's storage type.
func Store[F Float](t core.Tensor, v []F) {
	if len(v) != t.Elems() {
		panic(fmt.Sprintf("ops: %d values for a tensor of %d", len(v), t.Elems()))
	}
	switch t.DType {
	case core.Float64:
		to := t.Float64s()
		for i, x := range v {
			to[i] = float64(x)
		}
		return
	case core.Float32:
		to := t.Float32s()
		for i, x := range v {
			to[i] = float32(x)
		}
		return
	case core.BFloat16:
		to := t.Uint16s()
		for i, x := range v {
			to[i] = core.Float32ToBFloat16(float32(x))
		}
		return
	case core.Float16:
		to := t.Uint16s()
		for i, x := range v {
			to[i] = core.Float32ToFloat16(float32(x))
		}
		return
	}
	single := make([]float32, len(v))
	for i, x := range v {
		single[i] = float32(x)
	}
	t.Store(single, 0)
}

// Rounded returns v as it would be read back from storage.
func Rounded[F Float](d core.DType, v F) F {
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

// Softmax replaces z by its softmax and returns the logarithm of the sum of exp(z).
func Softmax[F Float](z []F) (lse F) {
	high := z[0]
	for _, v := range z {
		high = max(high, v)
	}
	var sum F
	for i, v := range z {
		z[i] = F(math.Exp(float64(v - high)))
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
	return high + F(math.Log(float64(sum)))
}

// Squares are sums of squares; Roots makes them what Op.Terms returns.
type Squares []float64

// Add adds the square of v to one of them.
func (s Squares) Add(at int, v float64) { s[at] += v * v }

// Roots replaces them by their roots.
func (s Squares) Roots() []float64 {
	for i, v := range s {
		s[i] = math.Sqrt(v)
	}
	return s
}

// Wide returns an input in float64, nil if there is none.
func (in *Inputs) Wide(name string) []float64 {
	if len(in.Named[name]) == 0 {
		return nil
	}
	return Values[float64](in.Named[name][0])
}

// Softmaxed returns the softmax of z.
func Softmaxed(z []float64) []float64 {
	z = slices.Clone(z)
	Softmax(z)
	return z
}

// RoundBFloat16 rounds each element to float32 and then to bfloat16, to nearest even.
func RoundBFloat16[F Float](v []F) {
	for i, x := range v {
		v[i] = F(core.BFloat16ToFloat32(core.Float32ToBFloat16(float32(x))))
	}
}
