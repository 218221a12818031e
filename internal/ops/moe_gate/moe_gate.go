// Package moegate is the op moe_gate,
//
//	score = softmax or sigmoid of the logits;  choice = score + bias
//	a group's choice is the sum of its two best; outside the best groups, choice = 0
//	ids = the K best choices, best first;  p = score[ids];  q = p/sum(p) or p
//	weights = scale*q;  the gradient goes back through q, p and score
package moegate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.MoEGate,
	Single: runMoEGate[float32], Double: runMoEGate[float64],
	Usual: gateKinds()[0],
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Normalize = false },
		func(f *core.Facts) { f.Scoring = core.ScoringSigmoid },
		func(f *core.Facts) { f.Scoring, f.Bias = core.ScoringSigmoid, true },
		func(f *core.Facts) {
			f.Scoring, f.Bias, f.Groups, f.TopGroups, f.Scale = core.ScoringSigmoid, true, 4, 2, 2.5
		},
	},
	Kinds:     gateKinds(),
	Variants:  gateVariants(),
	Settle:    separate,
	NotFinite: opdef.NotFinite("logits", "drouting_weights"),
	Cases: func(f core.Facts, add opdef.Adder) {
		all := func(to float64) func(_, _ int, _ float64) float64 {
			return func(_, _ int, _ float64) float64 { return to }
		}
		add("many tokens", 300, nil)
		add("ties", 9, opdef.Both( // of equal logits the first is chosen
			opdef.Each(func(t, i int, _ float64) float64 { return float64((t*f.Experts + i) * 7 % 3) }, "logits"),
			opdef.Each(all(0.25), "bias")))
		add("all experts alike", 3, opdef.Both(opdef.Each(all(-1), "logits"), opdef.Each(all(-0.5), "bias")))
		add("far apart", 7, opdef.Scaled("logits", 4))
	},
	Extremes: gateExtremes,
	Axes:     gateAxes(),
	Large:    []opdef.Large{{Tokens: 1030, Change: func(f *core.Facts) { f.Experts, f.TopK = 264, 2 }}},
	Terms:    func(in *opdef.Inputs, pass core.Pass, _ string) []float64 { return gateTerms(in, pass) },
	Shapes: []opdef.Shape{
		{Name: "x128 top-8 softmax",
			Facts: core.Facts{Experts: 128, TopK: 8, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
				Normalize: true, Scale: 1}},
		{Name: "x256 top-8 sigmoid 4/8 groups",
			Facts: core.Facts{Experts: 256, TopK: 8, Scoring: core.ScoringSigmoid, Bias: true,
				Groups: 8, TopGroups: 4, Normalize: true, Scale: 2.5}},
	},
	Tokens:     []int{128, 2048},
	Recordings: []string{"router_softmax", "router_glm"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_moe/gate", Kernel: "new(Kernel)"},
}

func gateKinds() []core.Facts {
	f := core.Facts{Experts: 8, TopK: 2, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1, Normalize: true, Scale: 1}
	plain, sigmoid, biased := f, f, f
	plain.Normalize, biased.Bias = false, true
	sigmoid.Scoring, sigmoid.Bias, sigmoid.Scale = core.ScoringSigmoid, true, 2.5
	grouped := sigmoid
	grouped.Groups, grouped.TopGroups = 4, 2
	return []core.Facts{f, plain, sigmoid, grouped, biased}
}

// gateVariants returns facts of moe_gate: both scorings, with and without groups, among
// them groups with fewer experts than a token has, so that others fill up.
func gateVariants() []core.Facts {
	var all []core.Facts
	for i, s := range [][4]int{{1, 1, 1, 1}, {3, 1, 1, 1}, {8, 2, 1, 1}, {5, 5, 1, 1}, {33, 4, 1, 1},
		{8, 2, 4, 2}, {8, 3, 2, 1}, {8, 3, 4, 1}, {60, 6, 6, 3}, {8, 2, 4, 4}, {64, 8, 1, 1}, {256, 8, 8, 4}} {
		f := core.Facts{Experts: s[0], TopK: s[1], Groups: s[2], TopGroups: s[3], Normalize: i%2 == 0, Scale: 1}
		sigmoid, other := f, f
		f.Scoring = core.ScoringSoftmax
		sigmoid.Scoring, sigmoid.Bias, sigmoid.Scale = core.ScoringSigmoid, true, 2.5
		other.Scoring, other.Normalize = core.ScoringSigmoid, !f.Normalize
		if i == 2 {
			f.Scale, other.Scale = 1.5, 1.5
		}
		all = append(all, f, sigmoid, other)
	}
	return all
}

// choiceMargin is how far apart two choices of moe_gate are at least, relative to the
// largest of the token, so that no rounding and no step of GradCheck turns them round.
const choiceMargin = 0x1p-14

// separate draws the logits of every token again until its choices are clear.
func separate(in *opdef.Inputs, rng *rand.Rand) {
	E, logits := in.Facts.Experts, in.Named["logits"][0]
	bias := make([]float64, E)
	if in.Facts.Bias {
		bias = opdef.Values[float64](in.Named["bias"][0])
	}
	v := make([]float32, E)
	for t := range in.Tokens {
		row := logits.Slice(t*E, (t+1)*E, E)
		for range 1000 {
			if isClear(in.Facts, opdef.Values[float64](row), bias) {
				break
			}
			for e := range v {
				v[e] = float32(rng.NormFloat64())
			}
			row.Store(v, 0)
		}
	}
}

// isClear reports whether nothing is decided by a narrow margin for a token: not which
// groups it takes, nor which experts in which order.
func isClear(f core.Facts, logits, bias []float64) bool {
	choices, top := scored(f, logits), 0.0
	for e := range choices {
		choices[e] += bias[e]
		top = max(top, math.Abs(choices[e]))
	}
	margin := choiceMargin * top
	if f.Groups > 1 {
		size, groups := f.Experts/f.Groups, groupChoices(f, choices)
		order := append(descending(groups), math.Inf(-1))
		if order[f.TopGroups-1]-order[f.TopGroups] < 2*margin {
			return false
		}
		for e := range choices {
			if groups[e/size] < order[f.TopGroups-1] {
				choices[e] = 0
			}
		}
	}
	order := append(descending(choices), math.Inf(-1))
	for k := range f.TopK {
		if order[k]-order[k+1] < margin && order[k] != 0 { // choices outside the groups are all 0
			return false
		}
	}
	return true
}

func descending(v []float64) []float64 {
	v = slices.Sorted(slices.Values(v))
	slices.Reverse(v)
	return v
}

func gateAxes() []opdef.Axis {
	experts := func(u *opdef.Use, n int) {
		if u.Facts.Groups > 1 {
			n = max(2, (n+3)/4) * 4
		}
		u.Facts.Experts, u.Facts.TopK = n, min(n, 2)
	}
	return []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Experts, f.TopK = max(3, 2*f.Groups), 1 }),
		{Name: "experts", Rests: opdef.EveryRest, Step: 7, Large: []int{300, 200, 256, 258, 514, 1026}, Set: experts},
		{Name: "top_k", Rests: opdef.SomeRests, Large: []int{66, 48, 64, 130}, Set: func(u *opdef.Use, n int) {
			experts(u, n+3)
			u.Facts.TopK = n
			if u.Facts.Groups > 1 {
				u.Facts.TopGroups = 4
			}
		}},
		{Name: "groups", Rests: opdef.SomeRests / 2, Large: []int{66, 32}, Set: func(u *opdef.Use, n int) {
			u.Facts.Groups, u.Facts.TopGroups = n, (n+1)/2
			u.Facts.Experts, u.Facts.TopK = (2+n%2)*n, 2
		}},
	}
}

// gateExtremes: a softmax is that of the differences, wherever the logits lie.
func gateExtremes(f core.Facts, add opdef.Adder) {
	add("small differences", 29, opdef.Each(func(_, i int, v float64) float64 {
		return v/16 + float64(i*5%f.Experts)/8
	}, "logits"))
	if f.Scoring == core.ScoringSoftmax {
		for _, far := range []float64{-1000, 1000, 30000} {
			add("far from zero", 29, opdef.Each(func(t, i int, _ float64) float64 {
				return far + float64((i*5+t)%f.Experts)*16
			}, "logits"))
		}
		return
	}
	add("far from zero", 29, opdef.Each(func(t, i int, v float64) float64 { // one expert is certain, another impossible
		switch (i + t) % f.Experts {
		case 0:
			return []float64{40, 100, 800, 30000}[t%4]
		case 1:
			return -[]float64{120, 800, 1000, 30000}[t%4]
		}
		return v
	}, "logits"))
	add("unlikely experts", opdef.LadderTokens, opdef.Each(func(t, _ int, v float64) float64 { // down to no probability
		return v - 1.5*float64(t)
	}, "logits"))
	add("experts left out", 29, opdef.Each(func(_, i int, v float64) float64 {
		if i%4 == 3 {
			return math.Inf(-1)
		}
		return v
	}, "logits"))
}

// gateTerms: the gradients of all logits of a token add up to 0, and are 0 where there is
// but one choice.
func gateTerms(in *opdef.Inputs, pass core.Pass) []float64 {
	if pass == core.Forward {
		return nil
	}
	f, ids := in.Facts, in.Named["expert_ids"][0].Int32s()
	logits, dweights := in.Wide("logits"), in.Wide("drouting_weights")
	E, K := f.Experts, f.TopK
	all := make([]float64, len(logits))
	for t := range in.Tokens {
		scores, kept := scored(f, logits[t*E:][:E]), denominatorFloor
		for _, e := range ids[t*K:][:K] {
			kept += scores[e]
		}
		mean, dscores := 0.0, make([]float64, E)
		for k, e := range ids[t*K:][:K] {
			mean += math.Abs(dweights[t*K+k]) * f.Scale * scores[e] / kept
		}
		for k, e := range ids[t*K:][:K] {
			d := math.Abs(dweights[t*K+k]) * f.Scale
			if f.Normalize {
				d = (d + mean) / kept
			}
			dscores[e] += d
		}
		total := 0.0
		for e, p := range scores {
			total += dscores[e] * p
		}
		for e, p := range scores {
			if all[t*E+e] = p * dscores[e]; f.Scoring == core.ScoringSoftmax {
				all[t*E+e] += p * total
			}
		}
	}
	return all
}
