package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y and gate_up_out.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	order := byExpert(c)
	D, I, K := c.Facts.Dim, c.Facts.Intermediate, c.Facts.TopK
	x, ids, probs := c.Input("x").Float32s(), c.Input("expert_ids").Int32s(), c.Input("routing_weights").Float32s()
	y, saved := c.Output("y").Float32s(), c.Output("gate_up_out").Float32s()
	clear(y)
	h := make([]float32, I)
	for j, a := range order { // assignment a is choice a%K of token a/K
		w := weights(c.Facts, c.Inputs, "", int(ids[a]))
		xt, yt := x[a/K*D:][:D], y[a/K*D:][:D]
		g, u := saved[j*2*I:][:I], saved[j*2*I+I:][:I]
		for i := range h {
			g[i], u[i] = dot(w.gate[i*D:][:D], xt), dot(w.up[i*D:][:D], xt)
			h[i] = g[i] * sigmoid(g[i]) * u[i]
		}
		for d := range yt {
			yt[d] += probs[a] * dot(w.down[d*I:][:I], h)
		}
	}
	return nil
}

// matrices are the weights of one expert, or their gradients: gate and up [I,D], down [D,I].
type matrices struct{ gate, up, down []float32 }

// weights finds those of expert e in either layout; with the prefix d, their gradients.
func weights(f core.Facts, named func(string) []core.Tensor, prefix string, e int) matrices {
	if f.Layout == core.PerExpert {
		of := func(name string) []float32 { return named(prefix + name)[e].Float32s() }
		return matrices{of("gate"), of("up"), of("down")}
	}
	n := f.Intermediate * f.Dim
	both, down := named(prefix + "gate_up")[0].Float32s()[e*2*n:], named(prefix + "down")[0].Float32s()[e*n:]
	return matrices{both[:n], both[n : 2*n], down[:n]}
}

// sigmoid never overflows to NaN: exp of a large number is infinite, and 1/(1+Inf) is 0.
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// dot adds in float64, so that long sums keep their digits.
func dot(a, b []float32) float32 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return float32(sum)
}
