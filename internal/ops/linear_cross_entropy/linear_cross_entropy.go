// Package linearcrossentropy is the op linear_cross_entropy,
//
//	z = weight x_t;  lse = log(sum of exp(z));  loss_t = lse - z[label_t]
//	dz = dloss_t*(exp(z - lse) - [v = label_t])
//	dx_t = weight^T dz;  dweight += dz x_t^T;  nothing for a negative label
package linearcrossentropy

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.LinearCrossEntropy,
	Single: runLinearCrossEntropy[float32], Double: runLinearCrossEntropy[float64],
	Usual: core.Facts{Dim: 64, Vocab: 256},
	Kinds: []core.Facts{{Dim: 5, Vocab: 7}, {Dim: 5, Vocab: 7, Frozen: true},
		{Dim: 5, Vocab: 7, WeightDType: core.BFloat16, Frozen: true}},
	Variants: []core.Facts{{Dim: 1, Vocab: 1}, {Dim: 5, Vocab: 7}, {Dim: 33, Vocab: 131}, {Dim: 64, Vocab: 600},
		{Dim: 16, Vocab: 70, WeightDType: core.Float32}, {Dim: 34, Vocab: 131, WeightDType: core.Float16, Frozen: true}},
	Fill: func(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
		if a.Name == "weight" {
			for i := range v {
				v[i] *= 2 / float32(math.Sqrt(float64(in.Facts.Dim)))
			}
		}
	},
	Indices: func(in *opdef.Inputs, rng *rand.Rand, v []int32) { // some ignored
		for t := range v {
			if v[t] = int32(rng.IntN(in.Facts.Vocab)); rng.IntN(4) == 0 {
				v[t] = -100
			}
		}
	},
	NotFinite: opdef.Both(labelled(func(int) int { return 0 }), opdef.NotFinite("x")),
	Zeros:     []string{"x"},
	Cases: func(f core.Facts, add opdef.Adder) {
		add("several blocks", 150, nil)
		add("sharp", 11, opdef.Scaled("x", 100))
		add("no target", 5, labelled(func(t int) int { return -100 }))
		add("one target", 9, labelled(func(t int) int { return t*t - 16 }))
		add("last of the vocabulary", 5, labelled(func(t int) int { return f.Vocab - 1 }))
	},
	Extremes: lossExtremes,
	Axes: []opdef.Axis{
		opdef.TokensAxis(1024, func(f *core.Facts) { f.Dim, f.Vocab = 2, 3 }),
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide, Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "vocab", Rests: opdef.Rests32, Step: 13, Large: slices.Concat(opdef.Wide, []int{32770, 151938, 262146}),
			Set: func(u *opdef.Use, n int) {
				if u.Facts.Vocab = n; n > 1024 {
					u.Facts.Dim = 2
				}
			}},
	},
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Vocab = 6, 4102 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Vocab = 518, 70 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.Vocab = 70, 1030 }},
		// Kernels have room for so many logits at a time, often 2^20, and cut the vocabulary where there are more: into
		// parts with a rest, and into whole ones, with a label at either side of the cut.
		{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.Vocab = 3, 2054 }, Edit: falling},
		{Tokens: 1024, Change: func(f *core.Facts) { f.Dim, f.Vocab = 2, 2048 },
			Edit: labelled(func(t int) int { return t + 512 })},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.Vocab = 518, 1030 }},
	},
	Terms: lossTerms,
	Verify: func(u *opdef.Use) { // a smaller vocabulary
		u.Facts.Vocab = min(u.Facts.Vocab, max(2, opdef.VerifyElems/max(1, u.Facts.Dim)))
	},
	Shapes:  []opdef.Shape{{Name: "x1024x32000", Facts: core.Facts{Dim: 1024, Vocab: 32000}}},
	Tokens:  []int{512},
	LossToo: true,
	Batch: func(in map[string][]core.Tensor) { // every token has a label
		for t, labels := 0, in["labels"][0].Int32s(); t < len(labels); t++ {
			labels[t] = max(labels[t], 0)
		}
	},
	Recordings: []string{"cross_entropy"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_linear_cross_entropy/linearcrossentropy", Kernel: "new(Kernel)"},
}

func runLinearCrossEntropy[F opdef.Float](c *core.Call) {
	D, V := c.Facts.Dim, c.Facts.Vocab
	x, weight, labels := opdef.Values[F](c.Input("x")), opdef.Values[F](c.Input("weight")), c.Input("labels").Int32s()
	losses, dx, dweight := make([]F, len(labels)), make([]F, len(x)), make([]F, len(weight))
	dlosses := make([]F, len(labels))
	if c.Pass == core.Backward {
		dlosses = opdef.Values[F](c.Input("dlosses"))
	}
	dz := make([]F, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		opdef.Products(dz, weight, D, xt)
		z := dz[y]
		losses[t] = opdef.Softmax(dz) - z
		if c.Pass == core.Forward {
			continue
		}
		dz[y]--
		for v := range dz {
			dz[v] *= dlosses[t]
		}
		opdef.AddTransposed(dx[t*D:][:D], weight, dz)
		if !c.Facts.Frozen {
			opdef.AddOuter(dweight, dz, xt)
		}
	}
	opdef.Store(c.Output("losses"), losses)
	if c.Pass == core.Backward {
		opdef.Store(c.Output("dx"), dx)
		if !c.Facts.Frozen {
			opdef.Store(c.Output("dweight"), dweight)
		}
	}
}

func lossExtremes(f core.Facts, add opdef.Adder) {
	add("tokens of all scales", opdef.LadderTokens, opdef.Each(func(t, _ int, v float64) float64 {
		return v * math.Exp2(float64(t)/2-10)
	}, "x"))
	for _, far := range []float64{-1500, 1500} {
		first := func(to float64) func(_, i int, v float64) float64 {
			return func(_, i int, v float64) float64 { return map[bool]float64{true: to, false: v}[i == 0] }
		}
		add("logits far from zero", 29, opdef.Both(opdef.Each(first(far/2), "x"), opdef.Each(first(2), "weight")))
	}
	add("certain and wrong", 29, opdef.Both(opdef.Scaled("x", 1000), labelled(func(t int) int { return t % f.Vocab })))
	add("the first token only", 29, labelled(func(t int) int { return -t }))
	add("the last token only", 29, labelled(func(t int) int { return t - 28 }))
	add("the same label", 300, labelled(func(int) int { return f.Vocab / 2 }))
	add("first and last label", 29, labelled(func(t int) int { return t % 2 * (f.Vocab - 1) }))
	const halves, vocab = 13, 1<<13 + 6
	add("labels at the ends of blocks", 4*halves, labelled(func(t int) int { // of a power of two, and of equal parts
		return []int{1 << (t / 4), vocab >> (t / 4)}[t%4/2] - t%2
	}), func(f *core.Facts) { f.Dim, f.Vocab = 2, vocab })
	add("no loss where there is no label", 29, opdef.Both(labelled(func(t int) int { return t%3 - 1 }),
		opdef.EachThird(math.NaN(), "x")))
	add("no loss where there is no label", 29, opdef.Both(labelled(func(t int) int { return t%3 - 1 }),
		opdef.EachThird(math.Inf(1), "dlosses")))
	add("answers to long prompts", 300, labelled(func(t int) int { return t%100 - 90 })) // blocks of tokens have no label
	add("no label", 29, labelled(func(int) int { return -100 }))
	add("no label", 300, labelled(func(int) int { return -1 }))
}

// lossTerms: with one word in the vocabulary, or one that is as good as certain, the loss
// and its gradients are 0.
func lossTerms(in *opdef.Inputs, pass core.Pass, output string) []float64 {
	x, weight, labels := in.Wide("x"), in.Wide("weight"), in.Named["labels"][0].Int32s()
	dlosses, D, V := in.Wide("dlosses"), in.Facts.Dim, in.Facts.Vocab
	losses, dx, dweight := make([]float64, len(labels)), make(opdef.Squares, len(x)), make(opdef.Squares, len(weight))
	z := make([]float64, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		for v := range z {
			z[v] = opdef.Dot(weight[v*D:][:D], xt)
			losses[t] = max(losses[t], math.Abs(z[v]), opdef.TermsOf(weight[v*D:][:D], xt))
		}
		if pass == core.Forward || output == "losses" {
			continue
		}
		p := opdef.Softmaxed(z)
		p[y]++
		for v := range p {
			dz := p[v] * math.Abs(dlosses[t])
			for i := range D {
				dx.Add(t*D+i, dz*weight[v*D+i])
				dweight.Add(v*D+i, dz*xt[i])
			}
		}
	}
	switch output {
	case "dx":
		return dx.Roots()
	case "dweight":
		return dweight.Roots()
	}
	return losses
}

// labelled gives position t the label f(t), or none where that is negative or too large.
func labelled(f func(t int) int) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		vocab := in["weight"][0].Shape[0]
		for t, v := 0, in["labels"][0].Int32s(); t < len(v); t++ {
			v[t] = int32(f(t))
			if int(v[t]) >= vocab {
				v[t] = -1
			}
		}
	}
}

// falling makes the logits of every sixteenth token fall along the vocabulary, or rise, by more than an exponential in
// float64 can hold.
func falling(in map[string][]core.Tensor) {
	vocab := float64(in["weight"][0].Shape[0])
	opdef.Each(func(word, i int, was float64) float64 {
		if i > 0 {
			return was
		}
		return 20 - 40*float64(word)/vocab
	}, "weight")(in)
	opdef.Each(func(t, i int, was float64) float64 {
		if i > 0 || t%16 > 0 {
			return was
		}
		return 60 - 120*float64(t/16%2)
	}, "x")(in)
}
