package kerneltest

import (
	"fmt"

	"github.com/seed98097648/tune/core"
)

// The sizes of an axis. Kernels work in blocks of 4 to 256, and treat what is left over by
// other code; they have tables and buffers of fixed sizes, indices of 8 and 16 bits, and
// thresholds from which on another algorithm or another thread takes part.
const (
	// everyRest is two blocks of 64 and two more: every rest of every block up to that size,
	// behind a whole one at least, and the first of 128.
	everyRest = 2*64 + 2
	// rests32 is the same for blocks of 32, for sizes whose change takes a plugin long.
	rests32 = 2*32 + 2
	// someRests is the same for blocks of 16, for uses that differ from the first of an op
	// in what is no size.
	someRests = 2*16 + 2
	// blocks256 is where the rests of blocks of 256 end.
	blocks256 = 2*256 + 1
)

// use is a kind of use of an op, in small sizes: Facts without storage types.
type use = core.Facts

// axis is one size of an op, such as the number of tokens or of experts.
type axis struct {
	name  string
	rests int   // every size up to this is a case
	step  int   // from there to blocks256, one in so many is; 0 for none
	large []int // and these
	set   func(c *Case, n int)
}

// Sizes returns cases of op that differ in one size at a time, the others being small, and
// some that are large in all: for each axis every size up to 130 and some beyond, up to
// more than 65,536 where an op can have that. Kinds of use and storage types after the first
// of an op have all axes run through the sizes up to 34 together, each with another one, and
// fewer large ones. They are many, and Examine runs them; in a test, they take Run some seconds.
func Sizes(op core.Op) []Case {
	var cases []Case
	axes := axesOf(op)
	for i, d := range storage() {
		for j, f := range kindsOfUse(op) {
			f.DType = d
			if op.HasWeights() {
				f.WeightDType = d
			}
			if i+j > 0 {
				cases = append(cases, atOnce(op, f, axes)...)
			}
			for _, a := range axes {
				if i+j > 0 { // the first of the large sizes stand for all
					a.rests, a.step, a.large = 0, 0, a.large[:max(1, min(len(a.large), 4-2*i-j))]
				}
				cases = append(cases, a.cases(op, f)...)
			}
			if i+j < 2 && i < 2 {
				cases = append(cases, together(op, f)...)
			}
		}
	}
	return cases
}

// cases returns a case for each size of the axis.
func (a axis) cases(op core.Op, f core.Facts) []Case {
	var cases []Case
	for n := 1; n <= a.rests; n++ {
		cases = append(cases, sized(op, f, "sizes of "+a.name, n, a.set))
	}
	for n := a.rests + 1; a.step > 0 && n <= blocks256; n += a.step {
		cases = append(cases, sized(op, f, "sizes of "+a.name, n, a.set))
	}
	for _, n := range a.large {
		cases = append(cases, sized(op, f, "large "+a.name, n, a.set))
	}
	return cases
}

// atOnce returns cases in which every axis has another size, so that each runs through all
// up to someRests.
func atOnce(op core.Op, f core.Facts, axes []axis) []Case {
	var cases []Case
	for n := 1; n <= someRests; n += max(1, len(axes)-1) {
		cases = append(cases, sized(op, f, "sizes of all at once", n, func(c *Case, n int) {
			for i, a := range axes {
				if a.rests >= someRests {
					a.set(c, (n+7*i-1)%someRests+1)
				}
			}
		}))
	}
	return cases
}

// sized is a case with small sizes but for one.
func sized(op core.Op, f core.Facts, kind string, n int, set func(c *Case, n int)) Case {
	c := Case{Kind: kind, Op: op, Facts: f, Tokens: 5, Seed: uint64(n)}
	if op == core.RoPE {
		c.Positions = 11
	}
	set(&c, n)
	c.Name = fmt.Sprintf("%s %v T=%d %s %d", op, c.Facts, c.Tokens, kind, n)
	return c
}

// kindsOfUse returns facts of an op in small sizes, one for each variant that is no size.
func kindsOfUse(op core.Op) []use {
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		f := use{Dim: 9, Eps: 1e-6, Cast: core.CastBeforeWeight}
		other, frozen := f, f
		other.Offset, other.Cast, frozen.Frozen = 1, core.CastAfterWeight, true
		return []use{f, other, frozen}
	case core.SwiGLU:
		f := use{Intermediate: 9, Activation: "silu", Layout: core.Separate}
		packed := f
		packed.Layout = core.Packed
		return []use{f, packed}
	case core.RoPE:
		f := use{HeadDim: 8, RotaryDim: 8, Heads: 2, KVHeads: 1, Pairing: core.Half}
		interleaved := f
		interleaved.Pairing = core.Interleaved
		return []use{f, interleaved}
	case core.MoEGate:
		f := use{Experts: 8, TopK: 2, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1, Normalize: true, Scale: 1}
		plain, sigmoid := f, f
		plain.Normalize = false
		sigmoid.Scoring, sigmoid.Bias, sigmoid.Scale = core.ScoringSigmoid, true, 2.5
		grouped := sigmoid
		grouped.Groups, grouped.TopGroups = 4, 2
		biased := f
		biased.Bias = true
		return []use{f, plain, sigmoid, grouped, biased}
	case core.MoEExperts:
		f := use{Dim: 5, Intermediate: 3, Activation: "silu", Layout: core.Packed, Experts: 4, TopK: 2, Routing: core.RoutingNormalized}
		each, free, frozen := f, f, f
		each.Layout, each.Routing, free.Routing, frozen.Frozen = core.PerExpert, core.RoutingSoftmax, core.RoutingAny, true
		return []use{f, each, free, frozen}
	case core.Attention:
		return []use{{HeadDim: 4, Heads: 2, KVHeads: 1}}
	case core.LinearCrossEntropy:
		return []use{{Dim: 5, Vocab: 7}, {Dim: 5, Vocab: 7, Frozen: true}}
	}
	return nil
}

// wide and long are large sizes of a width, such as dim, and numbers of tokens: past blocks
// of many sizes, with an even rest and with an odd one, and more than an index of 16 bits can
// count. The first stands for all in kinds of use after the first.
var (
	wide = []int{4102, 258, 514, 1024, 1026, 2050, 3077, 8194, 65542}
	long = []int{4102, 1024, 1026, 1029, 2050, 3077, beyond16}
)

// beyond16 is more than an index of 16 bits can count, and no multiple of a block.
const beyond16 = 65536 + 4*256 + 6

func axesOf(op core.Op) []axis {
	tokens := axis{"tokens", everyRest, 7, long, func(c *Case, n int) { c.Tokens = n }}
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		tokens.set = func(c *Case, n int) {
			if c.Tokens = n; n > 4102 {
				c.Facts.Dim = 2
			}
		}
		return []axis{tokens, {"dim", everyRest, 7, wide, func(c *Case, n int) { c.Facts.Dim = n }}}
	case core.SwiGLU:
		tokens.set = func(c *Case, n int) {
			if c.Tokens = n; n > 4102 {
				c.Facts.Intermediate = 2
			}
		}
		return []axis{tokens, {"intermediate", everyRest, 7, wide, func(c *Case, n int) { c.Facts.Intermediate = n }}}
	case core.RoPE:
		tokens.set = func(c *Case, n int) {
			if c.Tokens = n; n > 4102 {
				c.Facts.Heads, c.Facts.HeadDim, c.Facts.RotaryDim = 1, 2, 2
			}
		}
		return append([]axis{tokens}, ropeAxes()...)
	case core.MoEGate:
		tokens.set = func(c *Case, n int) {
			if c.Tokens = n; n > 4102 {
				c.Facts.Experts, c.Facts.TopK = max(3, 2*c.Facts.Groups), 1
			}
		}
		return append([]axis{tokens}, gateAxes()...)
	case core.MoEExperts:
		return expertAxes()
	case core.Attention:
		return attentionAxes()
	case core.LinearCrossEntropy:
		tokens.set = func(c *Case, n int) {
			if c.Tokens = n; n > 1024 {
				c.Facts.Dim, c.Facts.Vocab = 2, 3
			}
		}
		return []axis{tokens,
			{"dim", rests32, 13, wide, func(c *Case, n int) { c.Facts.Dim = n }},
			{"vocab", rests32, 13, append(wide[:len(wide):len(wide)], 32770, 151938, 262146), func(c *Case, n int) {
				if c.Facts.Vocab = n; n > 1024 {
					c.Facts.Dim = 2
				}
			}}}
	}
	return nil
}

func ropeAxes() []axis {
	return []axis{
		{"rotary_dim", everyRest / 2, 0, []int{258, 128, 192, 514}, func(c *Case, n int) { c.Facts.RotaryDim, c.Facts.HeadDim = 2*n, 2*n }},
		{"head_dim past rotary_dim", someRests, 0, []int{130, 64, 514}, func(c *Case, n int) { c.Facts.HeadDim = c.Facts.RotaryDim + n }},
		{"heads", everyRest / 2, 0, []int{258, 128}, func(c *Case, n int) { c.Facts.Heads = n }},
		{"kv_heads", everyRest / 2, 0, []int{258, 128}, func(c *Case, n int) { c.Facts.KVHeads = n }},
		{"positions", everyRest, 7, []int{8194, 258, 1026, 2050, 3077, 4098, 4102, 32770, 65542, 131074}, func(c *Case, n int) {
			c.Positions, c.Tokens, c.Edit = n, 12, farPositions
		}},
		{"tokens in order", 0, 0, []int{1029, 130, 514}, func(c *Case, n int) {
			c.Tokens, c.Positions, c.Edit = n, 5*n, risingPositions
		}},
	}
}

// risingPositions rise with the tokens, as those of a text do, up to the end of the tables:
// the tokens of high numbers have high positions, too.
func risingPositions(in map[string][]core.Tensor) {
	P, v := in["cos"][0].Shape[0], in["positions"][0].Int32s()
	for t := range v {
		v[t] = int32((t+1)*P/len(v) - 1)
	}
}

// farPositions are the ends of the tables, the powers of two between them, and single steps
// back from the end.
func farPositions(in map[string][]core.Tensor) {
	P, v := in["cos"][0].Shape[0], in["positions"][0].Int32s()
	at := P
	for t := range v {
		switch {
		case t%2 == 0:
			v[t] = int32(max(P-1-t/2, 0))
		default:
			at /= 2
			v[t] = int32(max(at, 0))
		}
	}
	v[len(v)-1] = 0
}

func gateAxes() []axis {
	experts := func(c *Case, n int) {
		if c.Facts.Groups > 1 {
			n = max(2, (n+3)/4) * 4
		}
		c.Facts.Experts, c.Facts.TopK = n, min(n, 2)
	}
	return []axis{
		{"experts", everyRest, 7, []int{300, 200, 256, 258, 514, 1026}, experts},
		{"top_k", someRests, 0, []int{66, 48, 64, 130}, func(c *Case, n int) {
			experts(c, n+3)
			c.Facts.TopK = n
			if c.Facts.Groups > 1 {
				c.Facts.TopGroups = 4
			}
		}},
	}
}

// expertAxes: rows are the assignments that one expert has.
func expertAxes() []axis {
	return []axis{
		{"tokens", someRests, 0, []int{4102, 1026, 3077, beyond16}, func(c *Case, n int) {
			if c.Tokens = n; n > 1024 {
				c.Facts.Dim, c.Facts.Intermediate, c.Facts.Experts, c.Facts.TopK = 2, 1, 2, 1
			}
		}},
		{"rows of an expert", everyRest, 7, []int{1026, 1024, 2050, 3077, 4102}, func(c *Case, n int) {
			c.Tokens, c.Facts.Experts, c.Facts.TopK = n, 1, 1
		}},
		{"dim", rests32, 13, []int{1026, 514, 1024, 2050, 3077, 4102, 8194}, func(c *Case, n int) { c.Facts.Dim = n }},
		{"intermediate", rests32, 13, []int{1026, 514, 1024, 2050, 3077, 4102, 8194}, func(c *Case, n int) { c.Facts.Intermediate = n }},
		{"experts", someRests, 31, []int{300, 200, 256, 258, 514}, func(c *Case, n int) {
			c.Tokens, c.Facts.Experts, c.Facts.TopK = max(5, n), n, min(n, 2)
		}},
		{"top_k", someRests, 0, []int{66, 130}, func(c *Case, n int) { c.Facts.Experts, c.Facts.TopK = n+1, n }},
	}
}

func attentionAxes() []axis {
	causal := ranges(func(t, T int) (int, int) { return 0, t + 1 })
	window := func(n int) func(map[string][]core.Tensor) {
		return ranges(func(t, T int) (int, int) { return max(0, t+1-n), t + 1 })
	}
	one := func(c *Case) { c.Facts.Heads, c.Facts.KVHeads = 1, 1 }
	return []axis{
		{"tokens", everyRest, 63, []int{514, 770, 1026, 1543}, func(c *Case, n int) {
			if c.Tokens, c.Edit = n, causal; n > 512 {
				one(c)
			}
		}},
		{"tokens in a window", 0, 0, []int{2050, 3077, beyond16}, func(c *Case, n int) {
			one(c)
			c.Tokens, c.Edit = n, window(min(200, 1<<18/n))
		}},
		{"head_dim", everyRest, 31, []int{258, 192, 256, 514, 1026}, func(c *Case, n int) { c.Tokens, c.Facts.HeadDim, c.Edit = 9, n, causal }},
		{"group", someRests, 0, []int{66, 48, 64, 130}, func(c *Case, n int) { c.Facts.Heads, c.Facts.KVHeads, c.Edit = n, 1, causal }},
		{"kv_heads", someRests, 0, []int{66, 64, 130}, func(c *Case, n int) { c.Facts.Heads, c.Facts.KVHeads, c.Edit = 2*n, n, causal }},
		{"window", everyRest, 0, []int{257, 300, 514, 1026}, func(c *Case, n int) {
			one(c)
			c.Tokens, c.Edit = n+40, window(n)
		}},
		{"segments", everyRest, 0, []int{258, 192, 256, 512}, func(c *Case, n int) {
			one(c)
			c.Tokens, c.Edit = 2*n+3, ranges(func(t, T int) (int, int) { return t / n * n, t + 1 })
		}},
		{"ranges both ways", someRests, 0, []int{300, 130, 600}, func(c *Case, n int) {
			one(c)
			c.Tokens, c.Edit = n, ranges(func(t, T int) (int, int) { // wide and narrow, ahead and behind, in no order
				first := t * 7919 % T
				return first, first + t*104729%(T-first+1)
			})
		}},
	}
}

// together returns cases that are past a block in all sizes at once, and have more than
// 2^20 elements, or products, which is where kernels begin to share work among threads.
func together(op core.Op, f core.Facts) []Case {
	var cases []Case
	add := func(tokens int, change func(f *core.Facts)) {
		c := sized(op, f, "large in all sizes", tokens, func(c *Case, n int) { c.Tokens = n; change(&c.Facts) })
		cases = append(cases, c)
	}
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		add(1030, func(f *core.Facts) { f.Dim = 1030 })
	case core.SwiGLU:
		add(2054, func(f *core.Facts) { f.Intermediate = 2054 })
	case core.RoPE:
		add(1030, func(f *core.Facts) { f.Heads, f.KVHeads, f.HeadDim, f.RotaryDim = 12, 6, 70, 66 })
	case core.MoEGate:
		add(1030, func(f *core.Facts) { f.Experts, f.TopK = 264, 2 })
	case core.MoEExperts:
		add(198, func(f *core.Facts) { f.Dim, f.Intermediate, f.Experts, f.TopK = 134, 70, 3, 2 })
	case core.Attention:
		add(198, func(f *core.Facts) { f.HeadDim, f.Heads, f.KVHeads = 70, 6, 3 })
	case core.LinearCrossEntropy:
		add(198, func(f *core.Facts) { f.Dim, f.Vocab = 70, 1030 })
		add(1030, func(f *core.Facts) { f.Dim, f.Vocab = 6, 1030 })
	}
	return cases
}
