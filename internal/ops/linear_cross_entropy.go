package ops

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

// linearCrossEntropyOp is
//
//	z = weight x_t;  lse = log(sum of exp(z));  loss_t = lse - z[label_t]
//	dz = dloss_t*(exp(z - lse) - [v = label_t])
//	dx_t = weight^T dz;  dweight += dz x_t^T;  nothing for a negative label
var linearCrossEntropyOp = &Op{Name: core.LinearCrossEntropy,
	Single: runLinearCrossEntropy[float32], Double: runLinearCrossEntropy[float64],
	Usual: core.Facts{Dim: 64, Vocab: 256},
	Kinds: []core.Facts{{Dim: 5, Vocab: 7}, {Dim: 5, Vocab: 7, Frozen: true}},
	Variants: []core.Facts{{Dim: 1, Vocab: 1}, {Dim: 5, Vocab: 7}, {Dim: 33, Vocab: 131}, {Dim: 64, Vocab: 600},
		{Dim: 16, Vocab: 70, WeightDType: core.Float32}},
	Fill: func(in *Inputs, _ *rand.Rand, a core.Arg, v []float32) {
		if a.Name == "weight" {
			for i := range v {
				v[i] *= 2 / float32(math.Sqrt(float64(in.Facts.Dim)))
			}
		}
	},
	Indices: func(in *Inputs, rng *rand.Rand, v []int32) { // some ignored
		for t := range v {
			if v[t] = int32(rng.IntN(in.Facts.Vocab)); rng.IntN(4) == 0 {
				v[t] = -100
			}
		}
	},
	NotFinite: both(labelled(func(int) int { return 0 }), notFinite("x")),
	Zeros:     []string{"x"},
	Cases: func(f core.Facts, add Adder) {
		add("several blocks", 150, nil)
		add("sharp", 11, scaled("x", 100))
		add("no target", 5, labelled(func(t int) int { return -100 }))
		add("one target", 9, labelled(func(t int) int { return t*t - 16 }))
		add("last of the vocabulary", 5, labelled(func(t int) int { return f.Vocab - 1 }))
	},
	Extremes: lossExtremes,
	Axes: []Axis{
		{"tokens", everyRest, 7, long, func(u *Use, n int) {
			if u.Tokens = n; n > 1024 {
				u.Facts.Dim, u.Facts.Vocab = 2, 3
			}
		}},
		{"dim", rests32, 13, wide, func(u *Use, n int) { u.Facts.Dim = n }},
		{"vocab", rests32, 13, append(wide[:len(wide):len(wide)], 32770, 151938, 262146), func(u *Use, n int) {
			if u.Facts.Vocab = n; n > 1024 {
				u.Facts.Dim = 2
			}
		}},
	},
	Large: []Large{
		{198, func(f *core.Facts) { f.Dim, f.Vocab = 70, 1030 }},
		{1030, func(f *core.Facts) { f.Dim, f.Vocab = 6, 1030 }},
	},
	Terms: (*Inputs).lossTerms,
	Verify: func(u *Use) { // a smaller vocabulary
		u.Facts.Vocab = min(u.Facts.Vocab, max(2, verifyElems/max(1, u.Facts.Dim)))
	},
	Shapes:  []Shape{{"x1024x32000", core.Facts{Dim: 1024, Vocab: 32000}}},
	Tokens:  []int{512},
	LossToo: true,
	Batch: func(in map[string][]core.Tensor) { // every token has a label
		for t, labels := 0, in["labels"][0].Int32s(); t < len(labels); t++ {
			labels[t] = max(labels[t], 0)
		}
	},
}

func runLinearCrossEntropy[F float](c *core.Call) {
	D, V := c.Facts.Dim, c.Facts.Vocab
	x, weight, labels := values[F](c.Input("x")), values[F](c.Input("weight")), c.Input("labels").Int32s()
	losses, dx, dweight := make([]F, len(labels)), make([]F, len(x)), make([]F, len(weight))
	dlosses := make([]F, len(labels))
	if c.Pass == core.Backward {
		dlosses = values[F](c.Input("dlosses"))
	}
	dz := make([]F, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		for v := range dz {
			dz[v] = dot(weight[v*D:][:D], xt)
		}
		z := dz[y]
		losses[t] = softmax(dz) - z
		if c.Pass == core.Forward {
			continue
		}
		dz[y]--
		for v := range dz {
			dz[v] *= dlosses[t]
			axpy(dx[t*D:][:D], dz[v], weight[v*D:][:D])
			axpy(dweight[v*D:][:D], dz[v], xt)
		}
	}
	store(c.Output("losses"), losses)
	if c.Pass == core.Backward {
		store(c.Output("dx"), dx)
		if !c.Facts.Frozen {
			store(c.Output("dweight"), dweight)
		}
	}
}

func lossExtremes(f core.Facts, add Adder) {
	add("tokens of all scales", ladderTokens, each(func(t, _ int, v float64) float64 {
		return v * math.Exp2(float64(t)/2-10)
	}, "x"))
	for _, far := range []float64{-1500, 1500} {
		first := func(to float64) func(_, i int, v float64) float64 {
			return func(_, i int, v float64) float64 { return map[bool]float64{true: to, false: v}[i == 0] }
		}
		add("logits far from zero", 29, both(each(first(far/2), "x"), each(first(2), "weight")))
	}
	add("certain and wrong", 29, both(scaled("x", 1000), labelled(func(t int) int { return t % f.Vocab })))
	add("the first token only", 29, labelled(func(t int) int { return -t }))
	add("the last token only", 29, labelled(func(t int) int { return t - 28 }))
	add("the same label", 300, labelled(func(int) int { return f.Vocab / 2 }))
	add("first and last label", 29, labelled(func(t int) int { return t % 2 * (f.Vocab - 1) }))
	add("no loss where there is no label", 29, both(labelled(func(t int) int { return t%3 - 1 }),
		each(func(t, _ int, v float64) float64 {
			if t%3 == 0 {
				return math.NaN()
			}
			return v
		}, "x")))
	add("no label", 29, labelled(func(int) int { return -100 }))
	add("no label", 300, labelled(func(int) int { return -1 }))
}

// lossTerms: with one word in the vocabulary, or one that is as good as certain, the loss
// and its gradients are 0.
func (in *Inputs) lossTerms(pass core.Pass, output string) []float64 {
	x, weight, labels := in.wide("x"), in.wide("weight"), in.Named["labels"][0].Int32s()
	dlosses, D, V := in.wide("dlosses"), in.Facts.Dim, in.Facts.Vocab
	losses, dx, dweight := make([]float64, len(labels)), make(squares, len(x)), make(squares, len(weight))
	z := make([]float64, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		for v := range z {
			z[v] = dot(weight[v*D:][:D], xt)
			losses[t] = max(losses[t], math.Abs(z[v]), termsOf(weight[v*D:][:D], xt))
		}
		if pass == core.Forward || output == "losses" {
			continue
		}
		p := softmaxed(z)
		p[y]++
		for v := range p {
			dz := p[v] * math.Abs(dlosses[t])
			for i := range D {
				dx.add(t*D+i, dz*weight[v*D+i])
				dweight.add(v*D+i, dz*xt[i])
			}
		}
	}
	switch output {
	case "dx":
		return dx.roots()
	case "dweight":
		return dweight.roots()
	}
	return losses
}
