package kerneltest

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// Extremes returns cases of op with values at the ends of what arithmetic can hold, for each
// storage type and kind of use, in small sizes. What is large or small is so by row: each
// token has its own scale and is judged by it, from the smallest numbers of the storage type,
// which have fewer digits, to those whose square is almost too large. Arguments of an
// exponential lie beyond where it overflows, in float64 too.
func Extremes(op core.Op) []Case {
	var cases []Case
	for _, d := range storage() {
		for _, f := range kindsOfUse(op) {
			f.DType = d
			if op.HasWeights() {
				f.WeightDType = d
			}
			add := func(kind string, tokens int, edit func(in map[string][]core.Tensor)) {
				cases = append(cases, sized(op, f, kind, tokens, func(c *Case, n int) { c.Tokens, c.Edit = n, edit }))
			}
			add("gradients of all scales", ladderTokens, ladders(d, 1, upstream...))
			add("tokens without a gradient", 29, each(everyOther, upstream...))
			add("no gradient", 29, each(func(_, _ int, _ float64) float64 { return 0 }, upstream...))
			add("tokens of zeros", 29, each(everyOther, "x", "residual", "gate", "up", "gate_up", "q", "k", "v"))
			switch op {
			case core.RMSNorm, core.AddRMSNorm:
				cases = append(cases, normExtremes(op, f)...)
			case core.SwiGLU:
				swigluExtremes(d, add)
			case core.RoPE:
				ropeExtremes(d, add)
			case core.MoEGate:
				gateExtremes(f, add)
			case core.MoEExperts:
				expertExtremes(d, f, add)
			case core.Attention:
				attentionExtremes(d, add)
			case core.LinearCrossEntropy:
				lossExtremes(d, f, add)
			}
		}
	}
	return cases
}

// upstream are the gradients that the backward passes start from.
var upstream = []string{"dy", "dh", "dq_out", "dk_out", "dlosses", "drouting_weights"}

// everyOther makes every second token zeros. Of moe_experts, only "x" is a token's; its
// matrices called gate, up and gate_up lose every second row, or expert.
func everyOther(t, _ int, v float64) float64 { return v * float64(t%2) }

// adder adds a case of a kind, with so many tokens.
type adder func(kind string, tokens int, edit func(in map[string][]core.Tensor))

// ladderTokens is how many tokens have a scale of their own.
const ladderTokens = 37

// exponents are the powers of two between which tokens are scaled: from the smallest numbers
// of the storage type to those whose product with another, so many times itself, is almost too
// large.
func exponents(d core.DType, power float64) (from, to float64) {
	switch d {
	case core.Float16:
		return -20 / power, 11 / power
	case core.BFloat16:
		return -130 / power, 110 / power
	}
	return -145 / power, 110 / power
}

// ladders scales each token of the inputs of those names by another power of two. Where the
// scale of a result is that of a product of so many of them, the powers are a part of the range.
func ladders(d core.DType, power float64, names ...string) func(in map[string][]core.Tensor) {
	from, to := exponents(d, power)
	return func(in map[string][]core.Tensor) {
		for _, name := range names {
			for _, x := range in[name] {
				v, T := values(x), x.Shape[0]
				low := from
				if x.DType == core.Float32 && d != core.Float32 {
					low = max(low, -100)
				}
				for i := range v {
					t := i / (len(v) / T)
					v[i] *= math.Exp2(math.Round(low + (to-low)*float64(t)/float64(max(T-1, 1))))
				}
				put(x, v, 1)
			}
		}
	}
}

// each sets every element of the inputs of those names, by token and place in it.
func each(f func(t, i int, v float64) float64, names ...string) func(in map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		for _, name := range names {
			for _, x := range in[name] {
				v := values(x)
				width := len(v) / x.Shape[0]
				for i := range v {
					v[i] = f(i/width, i%width, v[i])
				}
				put(x, v, 1)
			}
		}
	}
}

// halfOf is each for the first or the second half of every row of a packed input.
func halfOf(name string, which int, f func(t, i int, v float64) float64) func(in map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		for _, x := range in[name] {
			width := x.Shape[1]
			each(func(t, i int, v float64) float64 {
				if i*2/width == which {
					return f(t, i, v)
				}
				return v
			}, name)(in)
		}
	}
}

// both makes several changes.
func both(edits ...func(in map[string][]core.Tensor)) func(in map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		for _, edit := range edits {
			edit(in)
		}
	}
}

// normExtremes: each epsilon with tokens whose mean square is far below it, about it, and
// far above; tokens of zeros; and one element that outweighs all others.
func normExtremes(op core.Op, f core.Facts) []Case {
	var cases []Case
	add := func(kind string, edit func(in map[string][]core.Tensor)) {
		cases = append(cases, sized(op, f, kind, ladderTokens, func(c *Case, n int) { c.Tokens, c.Edit, c.Facts = n, edit, f }))
	}
	for _, eps := range []float64{0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-5, 1e-3, 1} {
		f.Eps = eps
		around := math.Log2(math.Sqrt(max(eps, 0x1p-20)))
		if eps > 0 {
			around = math.Log2(math.Sqrt(eps))
		}
		low, high := max(-20, around-6), min(11, around+6)
		if f.DType == core.Float16 && around < -16 {
			continue // what is so small has no digits left there
		}
		add("epsilon beside the mean", each(func(t, _ int, v float64) float64 {
			return v * math.Exp2(math.Round(low+(high-low)*float64(t)/ladderTokens))
		}, "x", "residual"))
	}
	f.Eps = 1e-6
	add("tokens of all scales", ladders(f.DType, 2, "x", "residual"))
	if f.DType != core.Float16 {
		add("smallest numbers", each(func(_, _ int, v float64) float64 { return v * 4 * smallest(f.DType) * 256 }, "x", "residual"))
	}
	add("one large element", each(func(t, i int, v float64) float64 {
		if i == t%9 {
			return 3000 * v
		}
		return v
	}, "x"))
	return cases
}

// swigluExtremes: where silu is all or nothing, and where it is about its argument. Between
// -110 and -80, where exponentials are no float32 numbers or hardly any, nothing is asked.
func swigluExtremes(d core.DType, add adder) {
	at := []float64{-1000, -750, -710, -120, -79, -60, -40, -20, -10, -5, -1, -1e-2, -1e-4, 0, 1e-4, 1e-2, 1, 5, 10, 17, 20, 40, 80, 89, 100, 120, 700, 710, 750, 1000, 5000}
	around := func(t, _ int, v float64) float64 {
		a := at[t%len(at)]
		return a * (1 + v/256)
	}
	add("far out on the curve", len(at), both(each(around, "gate"), halfOf("gate_up", 0, around)))
	add("tokens of all scales", ladderTokens, ladders(d, 2, "gate", "up", "gate_up"))
	add("smallest numbers", 9, both(each(tiny(d), "up"), halfOf("gate_up", 1, tiny(d))))
	if d == core.Float16 {
		add("past the largest number", 9, each(func(_, i int, v float64) float64 { return math.Copysign(1000, v) }, "gate", "up", "gate_up"))
	}
}

// tiny makes a value one of the smallest that a storage type has, with a few digits left.
func tiny(d core.DType) func(_, _ int, v float64) float64 {
	return func(_, _ int, v float64) float64 { return v * 64 * smallest(d) }
}

func ropeExtremes(d core.DType, add adder) {
	positions := func(f func(t int) int) func(in map[string][]core.Tensor) {
		return func(in map[string][]core.Tensor) {
			P, v := in["cos"][0].Shape[0], in["positions"][0].Int32s()
			for t := range v {
				v[t] = int32(f(t) % P)
			}
		}
	}
	add("positions in order", 29, positions(func(t int) int { return t }))
	add("positions backwards", 29, positions(func(t int) int { return 10*29 - t }))
	add("one position", 29, positions(func(int) int { return 10 }))
	add("positions in steps", 29, positions(func(t int) int { return t / 3 * 4 }))
	add("rotations that scale", 29, both(scaled("cos", 1.375), scaled("sin", -0.625)))
	add("no rotation", 29, both(each(func(_, _ int, _ float64) float64 { return 1 }, "cos"), each(func(_, _ int, _ float64) float64 { return 0 }, "sin")))
	add("tokens of all scales", ladderTokens, ladders(d, 1, "q", "k"))
	add("smallest numbers", 9, each(tiny(d), "q", "k", "dq_out", "dk_out"))
	if d == core.Float16 {
		add("past the largest number", 9, both(scaled("cos", 4), each(func(_, _ int, v float64) float64 { return math.Copysign(4e4, v) }, "q", "k")))
	}
}

// gateExtremes: a softmax is that of the differences, wherever the logits lie.
func gateExtremes(f core.Facts, add adder) {
	add("small differences", 29, each(func(_, i int, v float64) float64 { return v/16 + float64(i*5%f.Experts)/8 }, "logits"))
	if f.Scoring == core.ScoringSoftmax {
		for _, far := range []float64{-1000, 1000, 30000} {
			add("far from zero", 29, each(func(t, i int, _ float64) float64 { return far + float64((i*5+t)%f.Experts)*16 }, "logits"))
		}
		return
	}
	add("far from zero", 29, each(func(t, i int, v float64) float64 { // one expert is certain, another impossible
		switch (i + t) % f.Experts {
		case 0:
			return []float64{40, 100, 800, 30000}[t%4]
		case 1:
			return -[]float64{120, 800, 1000, 30000}[t%4]
		}
		return v
	}, "logits"))
	add("experts left out", 29, each(func(_, i int, v float64) float64 {
		if i%4 == 3 {
			return math.Inf(-1)
		}
		return v
	}, "logits"))
}

func expertExtremes(d core.DType, f core.Facts, add adder) {
	weights := func(f func(t, k int, v float64) float64) func(in map[string][]core.Tensor) {
		return each(f, "routing_weights")
	}
	add("tokens of all scales", ladderTokens, ladders(d, 4, "x"))
	add("weights of 0 and 1", 29, weights(func(t, k int, _ float64) float64 {
		if k == t%2 {
			return 1
		}
		return 0
	}))
	add("tiny weight", 29, weights(func(t, k int, _ float64) float64 {
		if k == t%2 {
			return 1 - 0x1p-20
		}
		return 0x1p-20
	}))
	add("one expert twice", 29, routed(func(t, k int) int { return t % f.Experts }))
	add("most to one expert", 300, routed(func(t, k int) int {
		if t%9 == 0 {
			return (t/9 + k) % f.Experts
		}
		return 1 + k
	}))
	if f.Routing == core.RoutingAny {
		add("weights of any size", 29, weights(func(t, k int, v float64) float64 {
			return []float64{-v, 0, 1e4 * v, 1e-4 * v, -1}[(t+k)%5]
		}))
	}
}

// attentionExtremes adds to the scores by way of the first element of q and k.
func attentionExtremes(d core.DType, add adder) {
	scores := func(T int, of func(j, T int) float64) func(in map[string][]core.Tensor) {
		return both(
			ranges(func(t, T int) (int, int) { return 0, t + 1 }),
			each(func(_, i int, v float64) float64 { return map[bool]float64{true: 32, false: v}[i%4 == 0] }, "q"),
			each(func(j, i int, v float64) float64 {
				if i == 0 {
					return of(j, T) / 16
				}
				return v
			}, "k"))
	}
	for _, T := range []int{29, 300} {
		add("scores far above zero", T, scores(T, func(_, _ int) float64 { return 1000 }))
		add("scores far below zero", T, scores(T, func(_, _ int) float64 { return -1000 }))
		add("scores that rise", T, scores(T, func(j, T int) float64 { return -1000 + 2000*float64(j)/float64(T) }))
		add("scores that fall", T, scores(T, func(j, T int) float64 { return 1000 - 2000*float64(j)/float64(T) }))
		add("scores with one peak", T, scores(T, func(j, T int) float64 { return map[bool]float64{true: 500, false: -500}[j == T/2] }))
	}
	add("equal scores", 300, both(ranges(func(t, T int) (int, int) { return 0, t + 1 }), scaled("q", 0)))
	add("values of all scales", ladderTokens, both(ranges(func(t, T int) (int, int) { return t, t + 1 }), ladders(d, 2, "v")))
	add("smallest numbers", 29, both(ranges(func(t, T int) (int, int) { return 0, t + 1 }), each(tiny(d), "v")))
	add("one key", 29, ranges(func(t, T int) (int, int) { return t * 5 % T, t*5%T + 1 }))
	add("keys to come", 29, ranges(func(t, T int) (int, int) { return t + 1, T }))
	add("no key at all", 29, ranges(func(t, T int) (int, int) { return 0, 0 }))
}

func lossExtremes(d core.DType, f core.Facts, add adder) {
	add("tokens of all scales", ladderTokens, each(func(t, _ int, v float64) float64 { return v * math.Exp2(float64(t)/2-10) }, "x"))
	for _, far := range []float64{-1500, 1500} {
		add("logits far from zero", 29, both(each(func(_, i int, v float64) float64 { return map[bool]float64{true: far / 2, false: v}[i == 0] }, "x"),
			each(func(_, i int, v float64) float64 { return map[bool]float64{true: 2, false: v}[i == 0] }, "weight")))
	}
	add("certain and wrong", 29, both(scaled("x", 1000), labelled(func(t int) int { return t % f.Vocab })))
	add("the first token only", 29, labelled(func(t int) int { return -t }))
	add("the last token only", 29, labelled(func(t int) int { return t - 28 }))
	add("the same label", 300, labelled(func(int) int { return f.Vocab / 2 }))
	add("first and last label", 29, labelled(func(t int) int { return t % 2 * (f.Vocab - 1) }))
	add("no loss where there is no label", 29, both(labelled(func(t int) int { return t%3 - 1 }), each(func(t, _ int, v float64) float64 {
		if t%3 == 0 {
			return math.NaN()
		}
		return v
	}, "x")))
	add("no label", 29, labelled(func(int) int { return -100 }))
	add("no label", 300, labelled(func(int) int { return -1 }))
}
