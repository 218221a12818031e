// Package opdeftest compares the gradients of an op's formulas with differences of them, in
// float64, closer than a call could, which stores some of them in float32.
package opdeftest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// CheckGradient compares with central differences of loss, which reads x. With this step,
// truncation and cancellation are both near 1e-10 for values near one.
func CheckGradient(t *testing.T, name string, got, x []float64, loss func() float64) {
	t.Helper()
	const step = 1e-5
	var diff, scale float64
	for i, v := range x {
		x[i] = v + step
		up := loss()
		x[i] = v - step
		want := (up - loss()) / (2 * step)
		x[i] = v
		diff, scale = max(diff, math.Abs(got[i]-want)), max(scale, math.Abs(want))
	}
	if !(diff <= 1e-8*scale) {
		t.Errorf("%s: differs from finite differences by %.3g of its largest element", name, diff/scale)
	}
}

// Normal returns standard normal numbers.
func Normal(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}
