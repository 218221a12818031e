package kerneltest_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// productsAgain is right: it takes gate and up not from gate_up_out but multiplies again, in
// another order. One expert has all tokens, so that rows are tokens.
func productsAgain(run runFunc, c *core.Call) error {
	if c.Pass == core.Forward {
		return run(c)
	}
	return withInput("gate_up_out", func(c *core.Call, v []float32) {
		D, I := c.Facts.Dim, c.Facts.Intermediate
		x, gateUp := c.Input("x").Float32s(), c.Input("gate_up").Float32s()
		for i := range v {
			t, row := i/(2*I), i%(2*I)
			v[i] = 0
			for d := D - 1; d >= 0; d-- {
				v[i] += x[t*D+d] * gateUp[row*D+d]
			}
		}
	})(run, c)
}

// TestProductsThatCancelWithinAnExpert: where gate or up is small because its terms cancel,
// its rounding is large beside what is made of it, the gradient of a routing weight
// included. Bugs in that gradient are found on the same data.
func TestProductsThatCancelWithinAnExpert(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 3, Intermediate: 2, Activation: "silu",
		Layout: core.Packed, Experts: 1, TopK: 1, Routing: core.RoutingSoftmax}
	var cases []kerneltest.Case
	for seed := range 200 {
		cases = append(cases, kerneltest.Case{Name: fmt.Sprint("seed ", seed), Op: core.MoEExperts, Facts: f, Tokens: 10,
			Seed: uint64(seed)})
	}
	if err := kerneltest.Check(faulty{reference.Single(core.MoEExperts), productsAgain}, cases); err != nil {
		t.Error(err)
	}
	for name, bug := range map[string]func(c *core.Call, v []float32){
		"a thousandth too large": func(_ *core.Call, v []float32) {
			for i := range v {
				v[i] *= 1.001
			}
		},
		"of the next token": func(_ *core.Call, v []float32) { copy(v, append(slices.Clone(v[1:]), v[0])) },
		"of the wrong sign": func(_ *core.Call, v []float32) { v[3] = -v[3] },
		"without one element": func(c *core.Call, v []float32) { // y ends a column early
			h, down, dy := c.Input("gate_up_out").Float32s(), c.Input("down").Float32s(), c.Input("dy").Float32s()
			for i := range v {
				silu := float64(h[i*4+1]) / (1 + math.Exp(-float64(h[i*4+1])))
				v[i] -= dy[i*3+2] * down[2*2+1] * float32(silu) * h[i*4+3]
			}
		},
	} {
		for _, c := range cases {
			k := faulty{reference.Single(core.MoEExperts), after("drouting_weights", bug)}
			if kerneltest.Check(k, []kerneltest.Case{c}) == nil {
				t.Errorf("gradients of routing weights %s, %s: not found", name, c.Name)
			}
		}
	}
}
