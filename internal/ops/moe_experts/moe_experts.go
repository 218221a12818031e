// Package moeexperts is the op moe_experts,
//
//	for each assignment of token t to expert e with routing weight p:
//	g = gate[e] x_t;  u = up[e] x_t;  h = g*s(g)*u;  y_t += p * down[e] h
//	v = down[e]^T dy_t;  dp = h . v;  ddown[e] += p * dy_t h^T
//	dg, du = gradient of swiglu for p*v;  dgate[e] += dg x_t^T, and so up;
//	dx_t += gate[e]^T dg + up[e]^T du
package moeexperts

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.MoEExperts,
	Single: runMoE[float32], Double: runMoE[float64],
	Usual: core.Facts{Dim: 64, Intermediate: 32, Experts: 8, TopK: 2, Activation: "silu", Layout: core.Packed,
		Routing: core.RoutingNormalized},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Layout = core.PerExpert },
		func(f *core.Facts) { f.Routing = core.RoutingSoftmax },
		func(f *core.Facts) { f.Activation = "gelu" },
	},
	Kinds:     expertKinds(),
	Variants:  expertVariants(),
	Fill:      fillExperts,
	Indices:   distinct,
	NotFinite: opdef.NotFinite("x", "dy"),
	Zeros:     []string{"x", "gate", "up", "gate_up"}, // of the matrices every second row, or expert
	Cases: func(f core.Facts, add opdef.Adder) {
		add("all to the first expert", 6, routed(func(t, k int) int { return k }))
		add("all to the last expert", 6, routed(func(t, k int) int { return f.Experts - 1 - k }))
		add("one expert for every choice", 5, routed(func(t, k int) int { return f.Experts - 1 }))
		add("one expert twice", 5, routed(func(t, k int) int { return (t + k%2) % f.Experts }))
		add("experts in turn", 10, routed(func(t, k int) int { return (t + k) % f.Experts }))
	},
	Extremes: expertExtremes,
	Axes:     expertAxes(),
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Intermediate, f.Experts, f.TopK = 518, 22, 3, 2 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Intermediate, f.Experts, f.TopK = 22, 518, 3, 2 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.Intermediate, f.Experts, f.TopK = 134, 70, 3, 2 }},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.Intermediate, f.Experts, f.TopK = 518, 522, 1, 1 }},
	},
	Terms: func(in *opdef.Inputs, _ core.Pass, output string) []float64 { return expertTerms(in, output) },
	Stack: func(core.Facts) *opdef.Stack {
		return &opdef.Stack{Next: map[string]string{"y": "x"}, Residual: true, Around: map[string]float64{"down": 0}}
	},
	Verify: func(u *opdef.Use) { // fewer experts
		u.Facts.Experts = min(u.Facts.Experts, max(2, opdef.VerifyElems/max(1, 3*u.Facts.Dim*u.Facts.Intermediate)))
		u.Facts.TopK = min(u.Facts.TopK, u.Facts.Experts)
	},
	Shapes: []opdef.Shape{
		{Name: "x512/384 32 experts top-4",
			Facts: core.Facts{Dim: 512, Intermediate: 384, Activation: "silu", Layout: core.Packed,
				Experts: 32, TopK: 4, Routing: core.RoutingNormalized}},
	},
	Tokens:     []int{128, 2048},
	Recordings: []string{"moe_qwen3"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_moe/moe", Kernel: "new(Kernel)"},
}

func expertKinds() []core.Facts {
	f := core.Facts{Dim: 5, Intermediate: 3, Activation: "silu", Layout: core.Packed,
		Experts: 4, TopK: 2, Routing: core.RoutingNormalized}
	each, free, frozen, halves := f, f, f, f
	each.Layout, each.Routing, free.Routing, frozen.Frozen = core.PerExpert, core.RoutingSoftmax, core.RoutingAny, true
	halves.WeightDType, halves.Frozen = core.BFloat16, true
	return []core.Facts{f, each, free, frozen, halves}
}

func expertVariants() (all []core.Facts) {
	for i, layout := range []core.Layout{core.Packed, core.PerExpert} {
		routing := []core.Routing{core.RoutingNormalized, core.RoutingSoftmax}
		for j, s := range [][4]int{{5, 3, 4, 2}, {8, 4, 3, 1}, {6, 5, 3, 3}, {3, 2, 1, 1}, {33, 17, 8, 3}} {
			all = append(all, core.Facts{Dim: s[0], Intermediate: s[1], Activation: "silu", Layout: layout,
				Experts: s[2], TopK: s[3], Routing: routing[(i+j)%2]})
		}
	}
	f := core.Facts{Dim: 7, Intermediate: 6, Activation: "silu", Layout: core.PerExpert, Experts: 4, TopK: 3,
		Routing: core.RoutingAny, WeightDType: core.Float32, Frozen: true}
	half := f
	half.WeightDType, half.Routing = core.Float16, core.RoutingSoftmax
	return append(all, f, half)
}

// fillExperts makes weights such that sums over them stay near 1.
func fillExperts(in *opdef.Inputs, rng *rand.Rand, a core.Arg, v []float32) {
	switch a.Name {
	case "gate", "up", "gate_up", "down":
		for i := range v {
			v[i] /= float32(math.Sqrt(float64(a.Shape[len(a.Shape)-1])))
		}
	case "routing_weights":
		probable(in, rng, v)
	}
}

// distinct gives each token experts, none of them twice.
func distinct(in *opdef.Inputs, rng *rand.Rand, v []int32) {
	for ; len(v) > 0; v = v[in.Facts.TopK:] {
		for k, e := range rng.Perm(in.Facts.Experts)[:in.Facts.TopK] {
			v[k] = int32(e)
		}
	}
}

// probable makes v [T,K] the probabilities of the first K of E random logits, divided by
// their sum if the facts say so.
func probable(in *opdef.Inputs, rng *rand.Rand, v []float32) {
	for K := in.Facts.TopK; len(v) > 0; v = v[K:] {
		var kept, rest float64
		for k := range K {
			v[k] = float32(math.Exp(float64(v[k])))
			kept += float64(v[k])
		}
		for range in.Facts.Experts - K {
			rest += math.Exp(rng.NormFloat64() - 1)
		}
		if in.Facts.Routing == core.RoutingNormalized {
			rest = 0
		}
		for k := range K {
			v[k] = float32(float64(v[k]) / (kept + rest))
		}
	}
}

// expertAxes: rows are the assignments that one expert has.
func expertAxes() []opdef.Axis {
	return []opdef.Axis{
		{Name: "tokens", Rests: opdef.SomeRests, Large: []int{4102, 1026, 3077, opdef.Beyond16},
			Set: func(u *opdef.Use, n int) {
				if u.Tokens = n; n > 1024 {
					u.Facts.Dim, u.Facts.Intermediate, u.Facts.Experts, u.Facts.TopK = 2, 1, 2, 1
				}
			}},
		{Name: "rows of an expert", Rests: opdef.EveryRest, Step: 7, Large: []int{1026, 1024, 2050, 3077, 4102},
			Set: func(u *opdef.Use, n int) {
				u.Tokens, u.Facts.Experts, u.Facts.TopK = n, 1, 1
			}},
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: []int{1026, 514, 1024, 2050, 3077, 4102, 8194},
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "intermediate", Rests: opdef.Rests32, Step: 13, Large: []int{1026, 514, 1024, 2050, 3077, 4102, 8194},
			Set: func(u *opdef.Use, n int) { u.Facts.Intermediate = n }},
		{Name: "experts", Rests: opdef.SomeRests, Step: 31, Large: []int{300, 200, 256, 258, 514},
			Set: func(u *opdef.Use, n int) {
				u.Tokens, u.Facts.Experts, u.Facts.TopK = max(5, n), n, min(n, 2)
			}},
		{Name: "top_k", Rests: opdef.SomeRests, Large: []int{66, 130},
			Set: func(u *opdef.Use, n int) { u.Facts.Experts, u.Facts.TopK = n+1, n }},
	}
}

func expertExtremes(f core.Facts, add opdef.Adder) {
	d := f.DType
	weights := func(f func(t, k int, v float64) float64) opdef.Edit {
		return opdef.Each(f, "routing_weights")
	}
	either := func(own, other float64) opdef.Edit { // of two experts, in turns
		return weights(func(t, k int, _ float64) float64 {
			if k == t%2 {
				return own
			}
			return other
		})
	}
	add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(d, 4, "x"))
	add("weights of 0 and 1", 29, either(1, 0))
	add("tiny weight", 29, either(1-0x1p-20, 0x1p-20))
	add("one expert twice", 29, routed(func(t, k int) int { return t % f.Experts }))
	add("most to one expert", 300, routed(func(t, k int) int {
		if t%9 == 0 {
			return (t/9 + k) % f.Experts
		}
		return 1 + k
	}))
	many := max(131, f.Experts)
	add("most to one of many experts", 300, routed(func(t, k int) int {
		if t%9 == 0 {
			return (t/9 + k) % many
		}
		return many - f.TopK + k
	}), func(f *core.Facts) { f.Experts = many })
	add("nan in an expert of no token", 29, opdef.Both(routed(func(t, k int) int {
		return ((t+k)%(f.Experts-1) + idle + 1) % f.Experts
	}), spoiled))
	if f.Routing == core.RoutingAny {
		add("weights of any size", 29, weights(func(t, k int, v float64) float64 {
			return []float64{-v, 0, 1e4 * v, 1e-4 * v, -1}[(t+k)%5]
		}))
	}
}

// idle is the expert that spoiled is about.
const idle = 1

// spoiled makes all weights of an expert NaN, which must reach nothing if no token goes there, not even times 0.
func spoiled(in map[string][]core.Tensor) {
	for _, name := range []string{"gate", "up", "gate_up", "down"} {
		x, from, each := in[name], 0, 0
		if len(x) == 0 {
			continue
		}
		if each = x[0].Elems(); len(x) == 1 { // packed
			each /= x[0].Shape[0]
			from = idle * each
		}
		x[min(idle, len(x)-1)].Store(slices.Repeat([]float32{float32(math.NaN())}, each), from)
	}
}

// routed sends choice k of token t to expert f(t, k).
func routed(f func(t, k int) int) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		ids := in["expert_ids"][0]
		K := ids.Shape[1]
		for i := range ids.Int32s() {
			ids.Int32s()[i] = int32(f(i/K, i%K))
		}
	}
}
