package ops

import (
	"fmt"
	"math"
	"slices"

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

// Values widens a floating-point tensor.
func Values(t core.Tensor) []float64 { return values[float64](t) }

// store rounds v to the tensor's storage type.
func store[F float](t core.Tensor, v []F) {
	if len(v) != t.Elems() {
		panic(fmt.Sprintf("ops: %d values for a tensor of %d", len(v), t.Elems()))
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

func axpy[F float](dst []F, a F, x []F) {
	for i, v := range x {
		dst[i] += a * v
	}
}

// softmax replaces z by its softmax and returns the logarithm of the sum of exp(z).
func softmax[F float](z []F) (lse F) {
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

// squares are sums of squares; roots makes them what terms returns.
type squares []float64

func (s squares) add(at int, v float64) { s[at] += v * v }

func (s squares) roots() []float64 {
	for i, v := range s {
		s[i] = math.Sqrt(v)
	}
	return s
}

// wide returns an input in float64, nil if there is none.
func (in *Inputs) wide(name string) []float64 {
	if len(in.Named[name]) == 0 {
		return nil
	}
	return values[float64](in.Named[name][0])
}

// termsOf is the size of the terms of a dot product.
func termsOf(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * v * b[i] * b[i]
	}
	return math.Sqrt(sum)
}

// softmaxed returns the softmax of z.
func softmaxed(z []float64) []float64 {
	z = slices.Clone(z)
	softmax(z)
	return z
}

// sigmoid never overflows to NaN: exp of a large number is +Inf, and 1/(1+Inf) is 0.
func sigmoid[F float](g F) F { return 1 / (1 + F(math.Exp(float64(-g)))) }

// siluTerms is the size of the terms of silu's derivative s + g*s*(1-s).
func siluTerms(g float64) float64 {
	s := 1 / (1 + math.Exp(-g))
	return math.Hypot(s, g*s*(1-s))
}
