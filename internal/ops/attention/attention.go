// Package attention is the op attention,
//
//	query t and key j in [first_t, end_t):  s = q_t . k_j / sqrt(head_dim);
//	lse_t = log(sum over j of exp(s));  p = exp(s - lse_t);  y_t = sum of p*v_j
//	ds = p*(dy_t . v_j - dy_t . y_t)/sqrt(head_dim);  dv_j += p*dy_t
//	dq_t += ds*k_j;  dk_j += ds*q_t
package attention

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.Attention,
	Single: runAttention[float32], Double: runAttention[float64],
	Usual:   core.Facts{HeadDim: 16, Heads: 4, KVHeads: 2},
	Changes: []func(*core.Facts){func(f *core.Facts) { f.KVHeads = 4 }},
	Kinds:   []core.Facts{{HeadDim: 4, Heads: 2, KVHeads: 1}},
	Variants: []core.Facts{{HeadDim: 1, Heads: 1, KVHeads: 1},
		{HeadDim: 7, Heads: 3, KVHeads: 1}, {HeadDim: 16, Heads: 4, KVHeads: 2},
		{HeadDim: 33, Heads: 2, KVHeads: 2}, {HeadDim: 64, Heads: 6, KVHeads: 2}, {HeadDim: 128, Heads: 2, KVHeads: 1}},
	Indices: documents,
	// Where every query that they could touch through a block of keys sees them anyway.
	NotFinite: opdef.Both(causal, func(in map[string][]core.Tensor) {
		T := in["keys"][0].Shape[0]
		in["q"][0].Store([]float32{float32(math.NaN())}, in["q"][0].Elems()/T*(T-1))
		in["v"][0].Store([]float32{float32(math.Inf(1))}, 0)
	}),
	Zeros: []string{"q", "k", "v"},
	Cases: func(_ core.Facts, add opdef.Adder) {
		add("causal", 40, causal)
		add("several blocks", 300, ranges(func(t, T int) (int, int) { return t / 170 * 170, t + 1 }))
		add("sliding window", 45, ranges(func(t, T int) (int, int) { return max(0, t-6), t + 1 }))
		add("every key", 9, ranges(func(t, T int) (int, int) { return 0, T }))
		add("no key", 9, ranges(func(t, T int) (int, int) { return t, t + t%2 }))
		add("sharp", 20, opdef.Scaled("q", 100))
	},
	Extremes: attentionExtremes,
	Axes:     attentionAxes(),
	Large: []opdef.Large{
		{Tokens: 1100, Change: func(f *core.Facts) { f.HeadDim, f.Heads, f.KVHeads = 8, 2, 1 }},
		{Tokens: 130, Change: func(f *core.Facts) { f.HeadDim, f.Heads, f.KVHeads = 194, 2, 1 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.HeadDim, f.Heads, f.KVHeads = 70, 6, 2 }},
		{Tokens: 530, Change: func(f *core.Facts) { f.HeadDim, f.Heads, f.KVHeads = 70, 2, 1 }, Edit: causal},
	},
	Terms: attentionTerms,
	Stack: func(core.Facts) *opdef.Stack { return &opdef.Stack{Next: map[string]string{"y": "q"}} },
	Shapes: []opdef.Shape{
		{Name: "x16x64 causal", Facts: core.Facts{HeadDim: 64, Heads: 16, KVHeads: 16}},
		{Name: "x16:8x64 causal", Facts: core.Facts{HeadDim: 64, Heads: 16, KVHeads: 8}},
	},
	Tokens:     []int{128, 1024},
	Batch:      causal,
	Recordings: []string{"attention"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_attention/attention", Kernel: "new(Kernel)"},
}

// causal makes the tokens one document, of which each sees itself and those before it.
var causal = ranges(func(t, _ int) (int, int) { return 0, t + 1 })

// documents lie one after the other; some queries see nothing.
func documents(_ *opdef.Inputs, rng *rand.Rand, v []int32) {
	first := 0
	for t := range len(v) / 2 {
		if rng.IntN(8) == 0 {
			first = t
		}
		v[2*t], v[2*t+1] = int32(first), int32(t+1)
		if rng.IntN(16) == 0 {
			v[2*t+1] = v[2*t]
		}
	}
}

// attention is the state of one call: q [T,H,d], k and v [T,KV,d], keys [T,2].
type attention[F opdef.Float] struct {
	f       core.Facts
	q, k, v []F
	keys    []int32
}

func runAttention[F opdef.Float](c *core.Call) {
	read := func(name string) []F { return opdef.Values[F](c.Input(name)) }
	a := attention[F]{c.Facts, read("q"), read("k"), read("v"), c.Input("keys").Int32s()}
	if c.Pass == core.Forward {
		y, lse := a.forward()
		opdef.Store(c.Output("y"), y)
		opdef.Store(c.Output("lse"), lse)
		return
	}
	dq, dk, dv := a.backward(read("dy"))
	opdef.Store(c.Output("dq"), dq)
	opdef.Store(c.Output("dk"), dk)
	opdef.Store(c.Output("dv"), dv)
}

// forward returns y [T,H,d] and lse [T,H]; both are 0 for a query without keys.
func (a attention[F]) forward() (y, lse []F) {
	y, lse = make([]F, len(a.q)), make([]F, len(a.q)/a.f.HeadDim)
	a.each(func(t, h int, first, end int) {
		p, l := a.probabilities(t, h, first, end)
		lse[t*a.f.Heads+h] = l
		out := row(y, t, h, a.f.Heads, a.f.HeadDim)
		for j, pj := range p {
			opdef.Axpy(out, pj, row(a.v, first+j, a.group(h), a.f.KVHeads, a.f.HeadDim))
		}
	})
	return y, lse
}

// backward computes the probabilities and y again: the saved ones are only as precise
// as their storage.
func (a attention[F]) backward(dy []F) (dq, dk, dv []F) {
	d, H, KV := a.f.HeadDim, a.f.Heads, a.f.KVHeads
	dq, dk, dv = make([]F, len(a.q)), make([]F, len(a.k)), make([]F, len(a.v))
	a.each(func(t, h int, first, end int) {
		g := a.group(h)
		p, _ := a.probabilities(t, h, first, end)
		dyt := row(dy, t, h, H, d)
		dp := make([]F, len(p))
		opdef.Products(dp, a.v[(first*KV+g)*d:], KV*d, dyt)
		var mean F // of dp under p, which is dy . y
		for j := range p {
			mean += p[j] * dp[j]
		}
		for j := range p {
			ds := p[j] * (dp[j] - mean) * a.scale()
			opdef.Axpy(row(dv, first+j, g, KV, d), p[j], dyt)
			opdef.Axpy(row(dq, t, h, H, d), ds, row(a.k, first+j, g, KV, d))
			opdef.Axpy(row(dk, first+j, g, KV, d), ds, row(a.q, t, h, H, d))
		}
	})
	return dq, dk, dv
}

// each calls f for every query that sees a key.
func (a attention[F]) each(f func(t, h, first, end int)) {
	for t := range len(a.keys) / 2 {
		if first, end := int(a.keys[2*t]), int(a.keys[2*t+1]); first < end {
			for h := range a.f.Heads {
				f(t, h, first, end)
			}
		}
	}
}

// probabilities returns the weights of keys [first, end) for a query, and the logarithm
// of the sum of their exponentials. Scores are float64 until they are weights, whatever F:
// an exponential makes of the rounding of a score a relative error as large as the score,
// and scores of some hundred are usual where attention is sharp.
func (a attention[F]) probabilities(t, h, first, end int) (p []F, lse F) {
	d, KV, scores := a.f.HeadDim, a.f.KVHeads, make([]float64, end-first)
	opdef.Products(scores, a.k[(first*KV+a.group(h))*d:], KV*d, row(a.q, t, h, a.f.Heads, d))
	for j := range scores {
		scores[j] /= math.Sqrt(float64(d))
	}
	sum := opdef.Softmax(scores)
	p = make([]F, len(scores))
	for j, v := range scores {
		p[j] = F(v)
	}
	return p, F(sum)
}

func (a attention[F]) scale() F { return F(1 / math.Sqrt(float64(a.f.HeadDim))) }

// group returns the key head that query head h uses.
func (a attention[F]) group(h int) int { return h / (a.f.Heads / a.f.KVHeads) }

// row returns head h of token t of x [T,heads,d].
func row[F opdef.Float](x []F, t, h, heads, d int) []F { return x[(t*heads+h)*d:][:d] }

func attentionAxes() []opdef.Axis {
	window := func(n int) opdef.Edit {
		return ranges(func(t, T int) (int, int) { return max(0, t+1-n), t + 1 })
	}
	one := func(u *opdef.Use) { u.Facts.Heads, u.Facts.KVHeads = 1, 1 }
	few := func(u *opdef.Use, n int) { // many would take long, and one where there are many tokens, too
		group, kv := u.Facts.Heads/u.Facts.KVHeads, min(u.Facts.KVHeads, 3)
		if u.Facts.Heads, u.Facts.KVHeads = group*kv, kv; n > opdef.SomeRests {
			one(u)
		}
	}
	return []opdef.Axis{
		{Name: "tokens", Rests: opdef.EveryRest, Step: 63, Large: []int{514, 770, 1026, 1543},
			Set: func(u *opdef.Use, n int) {
				if u.Tokens, u.Edit = n, causal; n > 512 {
					one(u)
				}
			}},
		{Name: "tokens in a window", Large: []int{2050, 3077, opdef.Beyond16}, Set: func(u *opdef.Use, n int) {
			one(u)
			u.Tokens, u.Edit = n, window(min(200, 1<<18/n))
		}},
		{Name: "head_dim", Rests: opdef.EveryRest, Step: 31, Large: []int{258, 192, 256, 514, 1026},
			Set: func(u *opdef.Use, n int) {
				u.Tokens, u.Facts.HeadDim, u.Edit = 9, n, causal
			}},
		{Name: "group", Rests: opdef.SomeRests, Large: []int{66, 48, 64, 130}, Set: func(u *opdef.Use, n int) {
			u.Facts.Heads, u.Facts.KVHeads, u.Edit = n, 1, causal
		}},
		{Name: "kv_heads", Rests: opdef.SomeRests, Large: []int{66, 64, 130}, Set: func(u *opdef.Use, n int) {
			u.Facts.Heads, u.Facts.KVHeads, u.Edit = (2+n%2)*n, n, causal
		}},
		{Name: "window", Rests: opdef.EveryRest, Large: []int{257, 300, 514, 1026}, Set: func(u *opdef.Use, n int) {
			few(u, n)
			u.Tokens, u.Edit = n+40, window(n)
		}},
		{Name: "segments", Rests: opdef.EveryRest, Large: []int{258, 192, 256, 512}, Set: func(u *opdef.Use, n int) {
			few(u, n)
			u.Tokens, u.Edit = 2*n+3, ranges(func(t, T int) (int, int) { return t / n * n, t + 1 })
		}},
		{Name: "ranges both ways", Rests: opdef.SomeRests, Large: []int{300, 130, 600}, Set: func(u *opdef.Use, n int) {
			few(u, n)
			u.Tokens, u.Edit = n, ranges(func(t, T int) (int, int) { // wide and narrow, ahead and behind, in no order
				first := t * 7919 % T
				return first, first + t*104729%(T-first+1)
			})
		}},
	}
}

// attentionExtremes adds to the scores by way of the first element of q and k.
func attentionExtremes(f core.Facts, add opdef.Adder) {
	d := f.DType
	const far = 2100 // keys: several blocks, of which few queries see more than their own
	sees := map[bool]opdef.Edit{false: causal, true: ranges(func(t, T int) (int, int) {
		if t < T-6 {
			return t, t + 1
		}
		return 0, t + 1
	})}
	scores := func(T int, of func(j, T int) float64) opdef.Edit {
		return opdef.Both(
			sees[T == far],
			opdef.Each(func(_, i int, v float64) float64 { return map[bool]float64{true: 32, false: v}[i%4 == 0] }, "q"),
			opdef.Each(func(j, i int, v float64) float64 {
				if i == 0 {
					return of(j, T) / 16
				}
				return v
			}, "k"))
	}
	for _, T := range []int{29, 300, far} {
		if T < far {
			add("scores far above zero", T, scores(T, func(_, _ int) float64 { return 1000 }))
			add("scores far below zero", T, scores(T, func(_, _ int) float64 { return -1000 }))
		}
		add("scores that rise", T, scores(T, func(j, T int) float64 { return -1000 + 2000*float64(j)/float64(T) }))
		add("scores that fall", T, scores(T, func(j, T int) float64 { return 1000 - 2000*float64(j)/float64(T) }))
		add("scores with one peak", T, scores(T, func(j, T int) float64 {
			return map[bool]float64{true: 500, false: -500}[j == T/2]
		}))
	}
	// They weigh nothing, whole blocks of them before any other; a query that sees no others is NaN.
	for _, T := range []int{300, 1100} {
		if T > 1024 && d != core.Float32 { // every query that they could touch through a block has to see them
			break
		}
		add("scores of -Inf first", T, opdef.Both(causal,
			opdef.Each(func(_, _ int, v float64) float64 { return 1 + math.Abs(v) }, "q"),
			opdef.Each(func(j, _ int, v float64) float64 {
				if j < T-60 {
					return math.Inf(-1)
				}
				return v
			}, "k")))
	}
	add("equal scores", 300, opdef.Both(causal, opdef.Scaled("q", 0)))
	add("values of all scales", opdef.LadderTokens, opdef.Both(
		ranges(func(t, T int) (int, int) { return t, t + 1 }), opdef.Ladders(d, 2, "v")))
	add("smallest numbers", 29, opdef.Both(causal, opdef.Each(opdef.Tiny(d), "v")))
	notNumbers(add)
	extremeRanges(add)
}

// notNumbers has NaN where every query sees it, or in what comes of one that sees every key.
func notNumbers(add opdef.Adder) {
	not := func(name string, t int) opdef.Edit {
		return opdef.Both(causal, func(in map[string][]core.Tensor) {
			x := in[name][0]
			x.Store([]float32{float32(math.NaN())}, (t+1)*x.Elems()/x.Shape[0]-1)
		})
	}
	add("nan in keys", 29, not("k", 0))
	add("nan in values", 29, not("v", 0))
	add("nan in gradients", 29, not("dy", 28))
}

// extremeRanges are those of few keys or none.
func extremeRanges(add opdef.Adder) {
	add("one key", 29, ranges(func(t, T int) (int, int) { return t * 5 % T, t*5%T + 1 }))
	add("padding in front", 300, ranges(func(t, T int) (int, int) { // of three rows; blocks of queries see nothing
		const row, first = 100, 40
		if t%row < first {
			return t, t
		}
		return t/row*row + first, t + 1
	}))
	add("keys to come", 29, ranges(func(t, T int) (int, int) { return t + 1, T }))
	add("no key at all", 29, ranges(func(t, T int) (int, int) { return 0, 0 }))
}

// attentionTerms: a score's gradient p*(dp - delta) is 0 for a query with one key, and
// those of a query add up to 0. An exponential multiplies the rounding of a score by that,
// which the reference does not show, because its scores are float64.
func attentionTerms(in *opdef.Inputs, pass core.Pass, output string) []float64 {
	f, q, k, v, dy := in.Facts, in.Wide("q"), in.Wide("k"), in.Wide("v"), in.Wide("dy")
	d, H, KV := f.HeadDim, f.Heads, f.KVHeads
	keys, scale := in.Named["keys"][0].Int32s(), 1/math.Sqrt(float64(f.HeadDim))
	sums := max(1, math.Sqrt(float64(f.HeadDim))/4) // a running sum of d terms is rounded d times, on its way
	y, lse, dq, dk, dv := make(opdef.Squares, len(q)), make([]float64, in.Tokens*H), make(opdef.Squares, len(q)),
		make(opdef.Squares, len(k)), make(opdef.Squares, len(k))
	for i := range lse { // of token i/H
		t, h := i/H, i%H
		g := h / (H / KV)
		first, end := int(keys[2*t]), int(keys[2*t+1])
		if first == end {
			continue
		}
		qt, dyt, at := q[i*d:][:d], dy[i*d:][:d], func(j int) int { return (j*KV + g) * d }
		s, dp, sharp := make([]float64, end-first), make([]float64, end-first), 1.0
		for j := range s {
			n := at(first + j)
			s[j] = opdef.Dot(qt, k[n:][:d]) * scale
			dp[j] = opdef.TermsOf(dyt, v[n:][:d])
			size := max(math.Abs(s[j]), sums*opdef.TermsOf(qt, k[n:][:d])*scale)
			lse[i], sharp = max(lse[i], size), max(sharp, size)
		}
		p, delta := opdef.Softmaxed(s), 0.0
		for j := range p {
			delta += p[j] * dp[j]
		}
		for j := range p {
			n, pj := at(first+j), p[j]*sharp
			ds := pj * (dp[j] + delta) * scale
			for c := range d {
				y.Add(i*d+c, pj*v[n+c])
				dq.Add(i*d+c, ds*k[n+c])
				dk.Add(n+c, ds*qt[c])
				dv.Add(n+c, pj*dyt[c])
			}
		}
	}
	if pass == core.Forward && output == "lse" {
		return lse
	}
	return map[string]opdef.Squares{"y": y, "dq": dq, "dk": dk, "dv": dv}[output].Roots()
}

// ranges gives query t of T the keys [first, end).
func ranges(f func(t, T int) (first, end int)) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		v := in["keys"][0].Int32s()
		for t := range len(v) / 2 {
			first, end := f(t, len(v)/2)
			v[2*t], v[2*t+1] = int32(first), int32(end)
		}
	}
}
