package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes losses.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	eachToken(c, func(int, []float64) {})
	return nil
}

// eachToken writes losses, and calls f for every token with a label, with the
// probabilities of its vocabulary. Only one token's are in memory at a time.
func eachToken(c *core.Call, f func(t int, p []float64)) {
	D := c.Facts.Dim
	x, weight, losses := c.Input("x").Float32s(), c.Input("weight").Float32s(), c.Output("losses").Float32s()
	z := make([]float64, c.Facts.Vocab)
	for t, y := range c.Input("labels").Int32s() {
		losses[t] = 0
		if y < 0 {
			continue
		}
		for v := range z {
			z[v] = dot(weight[v*D:][:D], x[t*D:][:D])
		}
		label := z[y]
		losses[t] = float32(softmax(z) - label)
		f(t, z)
	}
}

// softmax replaces logits by probabilities, and returns the logarithm of the sum of their
// exponentials. The largest is taken off first, so that none overflows.
func softmax(z []float64) (lse float64) {
	high, sum := z[0], 0.0
	for _, v := range z {
		high = max(high, v)
	}
	for i, v := range z {
		z[i] = math.Exp(v - high)
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
	return high + math.Log(sum)
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
