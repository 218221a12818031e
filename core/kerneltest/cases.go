package kerneltest

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
)

// Cases returns the standard cases of op: CasesFor on a range of facts that covers the
// op's variants, in odd and even sizes, for each storage type, some with frozen weights.
func Cases(op core.Op) []Case {
	var cases []Case
	for _, d := range storage() {
		for i, f := range variants(op) {
			f.DType = d
			if f.WeightDType == core.InvalidDType && op.HasWeights() {
				f.WeightDType = d
			}
			cases = append(cases, CasesFor(op, f)...)
			if op.HasWeights() && i%2 == 0 {
				f.Frozen = true
				cases = append(cases, CasesFor(op, f)...)
			}
		}
	}
	return cases
}

// variants returns facts without DType; WeightDType is set only where it is to differ
// from DType.
func variants(op core.Op) []core.Facts {
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		norm := func(dim, offset int, cast core.CastOrder) core.Facts {
			return core.Facts{Dim: dim, Eps: 1e-5, Offset: offset, Cast: cast}
		}
		mixed := norm(65, 0, core.CastBeforeWeight)
		mixed.WeightDType = core.Float32
		return []core.Facts{
			norm(1, 0, core.CastBeforeWeight), norm(7, 1, core.CastBeforeWeight), norm(64, 0, core.CastAfterWeight),
			norm(129, 1, core.CastAfterWeight), norm(256, 0, core.CastBeforeWeight), mixed,
			norm(1027, 0, core.CastBeforeWeight),
		}
	case core.SwiGLU:
		var all []core.Facts
		for _, layout := range []core.Layout{core.Separate, core.Packed} {
			for _, I := range []int{1, 7, 64, 131, 1027} {
				all = append(all, core.Facts{Intermediate: I, Activation: "silu", Layout: layout})
			}
		}
		return all
	case core.RoPE:
		var all []core.Facts
		for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
			for _, s := range [][4]int{{2, 2, 1, 1}, {16, 16, 4, 2}, {10, 4, 3, 1}, {7, 6, 6, 3}, {64, 32, 2, 2}, {128, 128, 2, 1}} {
				all = append(all, core.Facts{Pairing: pairing, HeadDim: s[0], RotaryDim: s[1], Heads: s[2], KVHeads: s[3]})
			}
		}
		return all
	case core.MoEGate:
		return gateVariants()
	case core.MoEExperts:
		var all []core.Facts
		for i, layout := range []core.Layout{core.Packed, core.PerExpert} {
			routing := []core.Routing{core.RoutingNormalized, core.RoutingSoftmax}
			for j, s := range [][4]int{{5, 3, 4, 2}, {8, 4, 3, 1}, {6, 5, 3, 3}, {3, 2, 1, 1}, {33, 17, 8, 3}} {
				all = append(all, core.Facts{Dim: s[0], Intermediate: s[1], Activation: "silu", Layout: layout,
					Experts: s[2], TopK: s[3], Routing: routing[(i+j)%2]})
			}
		}
		return all
	case core.Attention:
		var all []core.Facts
		for _, s := range [][3]int{{1, 1, 1}, {7, 3, 1}, {16, 4, 2}, {33, 2, 2}, {64, 6, 3}, {128, 2, 1}} {
			all = append(all, core.Facts{HeadDim: s[0], Heads: s[1], KVHeads: s[2]})
		}
		return all
	case core.LinearCrossEntropy:
		mixed := core.Facts{Dim: 16, Vocab: 70, WeightDType: core.Float32}
		return []core.Facts{{Dim: 1, Vocab: 1}, {Dim: 5, Vocab: 7}, {Dim: 33, Vocab: 131}, {Dim: 64, Vocab: 600}, mixed}
	}
	return nil
}

// CasesFor returns the standard cases of op with these facts: one token, odd numbers of
// tokens that leave 1 and 3 over after fours, and 5 and 7 after eights, enough of them for several blocks, NaN and infinity, and what is special
// about the op, such as very large values or experts without token.
func CasesFor(op core.Op, f core.Facts) []Case {
	base := func(name string, tokens int, edit func(in map[string][]core.Tensor)) Case {
		c := Case{Kind: name, Op: op, Facts: f, Tokens: tokens, Edit: edit, Seed: uint64(tokens)}
		c.Name = fmt.Sprintf("%s %v T=%d %s", op, f, tokens, name)
		if op == core.RoPE {
			c.Positions = 11
		}
		return c
	}
	cases := []Case{
		base("one token", 1, nil), base("random", 7, nil), base("random", 13, nil), base("random", 70, nil),
		base("nan and inf", 9, notFinite),
	}
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		large, small := float32(1e12), float32(1e-12)
		if f.DType == core.Float16 {
			large, small = 1e4, 1e-4
		}
		cases = append(cases, base("large", 5, scaled("x", large)), base("small", 5, scaled("x", small)))
		if op == core.AddRMSNorm {
			cases = append(cases, base("large residual", 5, scaled("residual", large)), base("residual cancels x", 5, canceled))
		}
	case core.SwiGLU:
		name := "gate"
		if f.Layout == core.Packed {
			name = "gate_up"
		}
		cases = append(cases, base("large", 5, scaled(name, 75)))
	case core.MoEGate:
		cases = append(cases, base("many tokens", 300, nil), base("ties", 9, tied), base("all experts alike", 3, alike),
			base("far apart", 7, scaled("logits", 4)))
	case core.MoEExperts:
		cases = append(cases, base("all to the first expert", 6, routed(func(t, k int) int { return k })),
			base("all to the last expert", 6, routed(func(t, k int) int { return f.Experts - 1 - k })),
			base("one expert for every choice", 5, routed(func(t, k int) int { return f.Experts - 1 })),
			base("experts in turn", 10, routed(func(t, k int) int { return (t + k) % f.Experts })))
	case core.Attention:
		cases = append(cases, base("causal", 40, ranges(func(t, T int) (int, int) { return 0, t + 1 })),
			base("several blocks", 300, ranges(func(t, T int) (int, int) { return t / 170 * 170, t + 1 })),
			base("sliding window", 45, ranges(func(t, T int) (int, int) { return max(0, t-6), t + 1 })),
			base("every key", 9, ranges(func(t, T int) (int, int) { return 0, T })),
			base("no key", 9, ranges(func(t, T int) (int, int) { return t, t + t%2 })),
			base("sharp", 20, scaled("q", 100)))
	case core.LinearCrossEntropy:
		cases = append(cases, base("several blocks", 150, nil), base("sharp", 11, scaled("x", 100)),
			base("no target", 5, labelled(func(t int) int { return -100 })),
			base("one target", 9, labelled(func(t int) int { return t*t - 16 })),
			base("last of the vocabulary", 5, labelled(func(t int) int { return f.Vocab - 1 })))
	}
	return cases
}

// ranges gives query t of T the keys [first, end).
func ranges(f func(t, T int) (first, end int)) func(map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		v := in["keys"][0].Int32s()
		for t := range len(v) / 2 {
			first, end := f(t, len(v)/2)
			v[2*t], v[2*t+1] = int32(first), int32(end)
		}
	}
}

// labelled gives position t the label f(t), or none where that is negative or too large.
func labelled(f func(t int) int) func(map[string][]core.Tensor) {
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

// canceled makes the residual the opposite of x.
func canceled(in map[string][]core.Tensor) {
	v := make([]float32, in["x"][0].Elems())
	in["x"][0].Load(v, 0)
	for i := range v {
		v[i] = -v[i]
	}
	in["residual"][0].Store(v, 0)
}

// scaled multiplies an input; with a standard deviation of 1 before, the largest of a
// few hundred values is about three times the factor.
func scaled(name string, by float32) func(map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		for _, x := range in[name] {
			v := make([]float32, x.Elems())
			x.Load(v, 0)
			for i := range v {
				v[i] *= by
			}
			x.Store(v, 0)
		}
	}
}

// routed sends choice k of token t to expert f(t, k).
func routed(f func(t, k int) int) func(map[string][]core.Tensor) {
	return func(in map[string][]core.Tensor) {
		ids := in["expert_ids"][0]
		K := ids.Shape[1]
		for i := range ids.Int32s() {
			ids.Int32s()[i] = int32(f(i/K, i%K))
		}
	}
}

// notFinite puts a NaN and infinities into single elements of activations and upstream
// gradients, each in a row of its own; other rows stay finite. In attention they are
// where every query that they could touch through a block of keys sees them anyway.
func notFinite(in map[string][]core.Tensor) {
	if keys := in["keys"]; keys != nil {
		ranges(func(t, T int) (int, int) { return 0, t + 1 })(in)
		T := keys[0].Shape[0]
		last := in["q"][0].Elems() / T * (T - 1)
		in["q"][0].Store([]float32{float32(math.NaN())}, last)
		in["v"][0].Store([]float32{float32(math.Inf(1))}, 0)
		return
	}
	if labels := in["labels"]; labels != nil {
		clear(labels[0].Int32s())
	}
	names := []string{"gate", "up", "gate_up", "q", "k", "logits", "dy", "dq_out", "dk_out", "drouting_weights"}
	if in["x"] != nil {
		names = []string{"x", "residual", "dy", "dh"}
	}
	row := 0
	for _, name := range names {
		tensors := in[name]
		if len(tensors) == 0 {
			continue
		}
		x := tensors[0]
		width := x.Elems() / x.Shape[0]
		for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			at := row%x.Shape[0]*width + (i+row)%width
			x.Store([]float32{float32(v)}, at)
			row++
		}
	}
}
