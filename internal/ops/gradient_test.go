package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// gradientCases are uses of which the gradients of the formulas are compared with differences of
// them, in every element and closer than a call could, some of whose outputs are float32. The
// kit compares those of every op on ordinary data.
var gradientCases = []struct {
	name  string
	op    core.Op
	facts core.Facts
	edit  opdef.Edit // of normal numbers, and indices of 0
}{
	{"cast before", core.RMSNorm, core.Facts{Dim: 7, Eps: 0.1, Cast: core.CastBeforeWeight}, nil},
	{"cast after", core.RMSNorm, core.Facts{Dim: 7, Eps: 0.1, Cast: core.CastAfterWeight}, nil},
	{"cast before, offset", core.RMSNorm, core.Facts{Dim: 7, Eps: 0.1, Cast: core.CastBeforeWeight, Offset: 1}, nil},
	{"cast after, offset", core.RMSNorm, core.Facts{Dim: 7, Eps: 0.1, Cast: core.CastAfterWeight, Offset: 1}, nil},
	{"", core.AddRMSNorm, core.Facts{Dim: 7, Eps: 0.1, Cast: core.CastBeforeWeight}, nil},
	{"", core.QKV, core.Facts{Dim: 5, HeadDim: 2, Heads: 2, KVHeads: 1, Bias: true}, nil},
	{"", core.GateUpSwiGLU, core.Facts{Dim: 5, Intermediate: 3, Activation: "silu", Layout: core.Separate}, nil},
	{"packed, again", core.GateUpSwiGLU,
		core.Facts{Dim: 5, Intermediate: 3, Activation: "silu", Layout: core.Packed, Recompute: true}, nil},
	{"far out on the curve", core.SwiGLU, core.Facts{Intermediate: 5, Activation: "silu", Layout: core.Separate},
		func(in map[string][]core.Tensor) { copy(in["gate"][0].Float64s(), []float64{0, 40, -40}) }},
	// Tables that are no rotation, so that a gradient which relies on cos^2+sin^2 = 1 shows.
	{"half", core.RoPE, core.Facts{Pairing: core.Half, RotaryDim: 4, HeadDim: 7, Heads: 2, KVHeads: 1},
		indices("positions", 4, 0, 4, 1)},
	{"interleaved", core.RoPE, core.Facts{Pairing: core.Interleaved, RotaryDim: 4, HeadDim: 7, Heads: 2, KVHeads: 1},
		indices("positions", 4, 0, 4, 1)},
	{"two of four, one idle", core.MoEExperts, experts(4, 2), indices("expert_ids", 2, 0, 0, 1, 1, 2, 0, 2)},
	{"one of two, all to one", core.MoEExperts, experts(2, 1), indices("expert_ids", 1, 1, 1, 1)},
	{"all of two", core.MoEExperts, experts(2, 2), indices("expert_ids", 0, 1, 1, 0, 0, 1, 1, 0)},
}

func experts(n, topK int) core.Facts {
	return core.Facts{Dim: 5, Intermediate: 3, Experts: n, TopK: topK, Activation: "silu", Layout: core.PerExpert,
		Routing: core.RoutingAny}
}

func indices(name string, v ...int32) opdef.Edit {
	return func(in map[string][]core.Tensor) { copy(in[name][0].Int32s(), v) }
}

func TestGradientsAreThoseOfTheFormulas(t *testing.T) {
	for _, tt := range gradientCases {
		t.Run(string(tt.op)+" "+tt.name, func(t *testing.T) {
			if tt.facts.DType = core.Float64; tt.op.HasWeights() {
				tt.facts.WeightDType = core.Float64
			}
			calls := wideCalls(t, tt.op, tt.facts, tt.edit)
			forward, backward := calls[core.Forward], calls[core.Backward]
			loss := func() float64 {
				Of(tt.op).Double(forward)
				sum := 0.0
				for _, a := range forward.Sig.Out {
					if !a.Saved {
						sum += opdef.Dot(forward.Output(a.Name).Float64s(), backward.Input("d"+a.Name).Float64s())
					}
				}
				return sum
			}
			loss() // for what is saved
			Of(tt.op).Double(backward)
			for _, a := range backward.Sig.Out {
				for i, x := range forward.Inputs(strings.TrimPrefix(a.Name, "d")) {
					checkGradient(t, fmt.Sprintf("%s[%d]", a.Name, i), backward.Outputs(a.Name)[i].Float64s(), x.Float64s(), loss)
				}
			}
		})
	}
}

// wideCalls returns the calls of both passes of four tokens, with the same tensor where they have
// the same name, and float64 for float32.
func wideCalls(t *testing.T, op core.Op, f core.Facts, edit opdef.Edit) (calls [2]*core.Call) {
	t.Helper()
	rng, named := rand.New(rand.NewPCG(1, 1)), map[string][]core.Tensor{}
	for pass := range calls {
		c, err := core.NewCall(op, core.Pass(pass), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range append(c.Sig.In, c.Sig.Out...) {
			for len(named[a.Name]) < a.Count {
				x := core.NewTensor(a.DType, a.Shape.Bind(4, 5)...)
				if a.DType != core.Int32 {
					x = core.NewTensor(core.Float64, x.Shape...)
					for i := range x.Float64s() {
						x.Float64s()[i] = rng.NormFloat64()
					}
				}
				named[a.Name] = append(named[a.Name], x)
			}
			c.Set(a.Name, named[a.Name]...)
		}
		calls[pass] = c
	}
	if edit != nil {
		edit(named)
	}
	return calls
}

// checkGradient compares with central differences. With this step, truncation and cancellation
// are both near 1e-10 for values near one.
func checkGradient(t *testing.T, name string, got, x []float64, loss func() float64) {
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
