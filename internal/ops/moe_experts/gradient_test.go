package moeexperts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/opdef/opdeftest"
)

func TestMoEGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const T, D, I = 4, 5, 3
	for _, c := range []struct {
		name string
		E, K int
		ids  []int32
	}{
		{"two of four, one idle", 4, 2, []int32{2, 0, 0, 1, 1, 2, 0, 2}},
		{"one of two, all to one", 2, 1, []int32{1, 1, 1, 1}},
		{"all of two", 2, 2, []int32{0, 1, 1, 0, 0, 1, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := core.Facts{DType: core.Float64, Dim: D, Intermediate: I, Experts: c.E, TopK: c.K}
			x, dy := opdeftest.Normal(rng, T*D), opdeftest.Normal(rng, T*D)
			r := newRouting(c.ids, opdeftest.Normal(rng, T*c.K))
			all := make([]expert[float64], c.E)
			for e := range all {
				all[e] = expert[float64]{opdeftest.Normal(rng, I*D), opdeftest.Normal(rng, I*D), opdeftest.Normal(rng, D*I)}
			}
			weights := func(e int) expert[float64] { return all[e] }
			loss := func() float64 { y, _ := experts(f, x, r, weights); return opdef.Dot(y, dy) }
			_, gateUp := experts(f, x, r, weights)
			grads := make([]expert[float64], c.E)
			dx, dweights := expertsGradient(f, dy, x, r, gateUp, weights, func(e int, d expert[float64]) { grads[e] = d })
			opdeftest.CheckGradient(t, "dx", dx, x, loss)
			opdeftest.CheckGradient(t, "drouting_weights", dweights, r.weights, loss)
			for e, d := range grads {
				opdeftest.CheckGradient(t, "dgate", d.gate, all[e].gate, loss)
				opdeftest.CheckGradient(t, "dup", d.up, all[e].up, loss)
				opdeftest.CheckGradient(t, "ddown", d.down, all[e].down, loss)
			}
		})
	}
}

func TestRoutingOrderIsStableByExpert(t *testing.T) {
	r := newRouting([]int32{2, 0, 0, 2, 2, 0}, make([]float64, 6))
	if want := []int{1, 2, 5, 0, 3, 4}; !slices.Equal(r.order, want) {
		t.Errorf("order %v, want %v", r.order, want)
	}
}
