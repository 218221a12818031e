package nn

import (
	"math"

	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// gelu of x, as core.GELUTanh has it, is x * sigmoid(gelu2 * (x + gelu3 x^3)).
const (
	gelu2 = 2 * 0.797884560802865355879892119868763737 // 2 sqrt(2/pi)
	gelu3 = 0.044715
)

// geluTanh records y = x * sigmoid(a), a = gelu2 * (x + gelu3 x^3).
func geluTanh(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	sigmoids := func(s, x []float32) {
		for i, v := range x {
			s[i] = gelu2 * (v + float32(gelu3*v*v*v))
		}
		simd.Sigmoid(s, s)
	}
	// With s the sigmoid, dx = dy * (s + x s (1-s) a').
	return rowwise(g, "gelu_tanh", x, autograd.Backward{Inputs: []int{0}},
		func(y, x []float32) {
			sigmoids(y, x)
			simd.Mul(y, y, x)
		},
		func(dx, dy, x, _ []float32) {
			sigmoids(dx, x)
			for i, s := range dx {
				slope := gelu2 * (1 + float32(3*gelu3*x[i]*x[i]))
				dx[i] = dy[i] * (s + float32(x[i]*s*(1-s)*slope))
			}
		})
}

// capped records y = most * tanh(x / most).
func capped(g *autograd.Graph, x *autograd.Value, most float64) *autograd.Value {
	return rowwise(g, "capped", x, autograd.Backward{Outputs: []int{0}},
		func(y, x []float32) { softCap(y, x, 1, most) },
		func(dx, dy, _, y []float32) {
			for i, v := range y {
				t := float64(v) / most
				dx[i] = dy[i] * float32(1-float64(t*t))
			}
		})
}

// softCap writes most * tanh(scale * x / most). dst may be x.
func softCap(dst, x []float32, scale float32, most float64) {
	by := float64(scale) / most
	for i, v := range x {
		dst[i] = float32(most * math.Tanh(by*float64(v)))
	}
}
