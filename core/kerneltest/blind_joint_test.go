package kerneltest_test

import (
	"slices"

	"github.com/seed98097648/tune/core"
)

// past spoils calls of many rows of which two other sizes are past a block at once.
func past(one, other func(c *core.Call) int) func(runFunc, *core.Call) error {
	return where(func(c *core.Call) bool { return tokens(c) > 16 && one(c) > 512 && other(c) > 512 })
}

func queries(c *core.Call) int { return c.Facts.Heads * c.Facts.HeadDim }

// longPieces is how many sequences have more than 16 new tokens.
func longPieces(c *core.Call) (n int) {
	for _, tokens := range c.Input("query_lens").Int32s() {
		if tokens > 16 {
			n++
		}
	}
	return n
}

// unlabelled reports whether a block of 64 tokens without a label lies between others.
func unlabelled(c *core.Call) bool {
	last := -1
	for t, label := range c.Input("labels").Int32s() {
		if label < 0 {
			continue
		}
		if last >= 0 && t-last > 64 {
			return true
		}
		last = t
	}
	return false
}

// inRowsOfZeros makes zeros of the rows of an output where an input has zeros only.
func inRowsOfZeros(input, output string) func(runFunc, *core.Call) error {
	return after(output, rowsOfZeros(input))
}

// leftOut runs a backward call as if an input had zeros where a gradient has, as where these tokens are left out.
func leftOut(gradient, input string) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if c.Pass == core.Forward {
			return run(c)
		}
		return changed(input, rowsOfZeros(gradient))(run, c)
	}
}

// rowsOfZeros makes zeros of the rows of v where an input has zeros only.
func rowsOfZeros(input string) func(c *core.Call, v []float32) {
	return func(c *core.Call, v []float32) {
		if !slices.ContainsFunc(c.Sig.In, func(a core.Arg) bool { return a.Name == input }) {
			return
		}
		x := make([]float32, c.Input(input).Elems())
		c.Input(input).Load(x, 0)
		size := len(v) / c.Tokens()
		for row := range slices.Chunk(x, len(x)/c.Tokens()) {
			if !slices.ContainsFunc(row, func(x float32) bool { return x != 0 }) {
				clear(v[:size])
			}
			v = v[size:]
		}
	}
}

// blindJoint are bugs in sizes that do not show where only one of these is large, or a use is not the first.
var blindJoint = []blind{
	{"columns past a block behind one of terms", "large in all sizes", core.Linear, past(dim, outputs)},
	{"columns of int8 past a block behind one of terms", "large in all sizes", core.LinearW8A8, past(dim, outputs)},
	{"words past a block behind one of terms", "large in all sizes", core.LinearCrossEntropy, past(dim, vocab)},
	{"gates past a block behind one of terms", "large in all sizes", core.GateUpSwiGLU, past(dim, intermediate)},
	{"queries past a block behind one of terms", "large in all sizes", core.QKV, past(dim, queries)},
	{"gates of an expert past a block behind one of terms", "large in all sizes",
		core.MoEExperts, past(dim, intermediate)},
	{"gates in int8 past a block behind one of terms", "large in all sizes",
		core.SharedExpertFFN, past(dim, intermediate)},
	{"an adapter over 64 behind more than 64 rows", "large in all sizes", core.Linear,
		where(func(c *core.Call) bool { return rank(c) > 64 && tokens(c) > 64 })},
	{"keys more than 256 back of wide heads", "large in all sizes", core.Attention,
		where(func(c *core.Call) bool { return back(c) > 256 && headDim(c) > 64 })},
	{"several wide heads of k in bfloat16", "sizes of all at once", core.Attention, where(func(c *core.Call) bool {
		return c.Facts.KVHeads > 2 && headDim(c) > 4 && c.Facts.DType == core.BFloat16
	})},
	{"rest of 15 rows of neighbours", "sizes of all at once", core.RoPE, where(func(c *core.Call) bool {
		return tokens(c) > 16 && tokens(c)%16 == 15 && c.Facts.Pairing == core.Interleaved
	})},
	{"more than 8 groups of experts", "sizes of groups", core.MoEGate,
		where(func(c *core.Call) bool { return c.Facts.Groups > 8 })},
	{"blocks of 16 bits", "large blocks", core.PagedAttention, masked("block_tables", 0xffff)},
	{"a window of several pieces over 16", "large in all sizes", core.PagedAttention, where(func(c *core.Call) bool {
		return c.Facts.Window > 64 && longPieces(c) > 1
	})},
	{"a window from the first of a block on", "sizes of window", core.PagedAttention, where(func(c *core.Call) bool {
		f, lens := c.Facts, c.Input("seq_lens").Int32s()
		return f.Window > 0 && f.Window%f.BlockSize == 0 && slices.ContainsFunc(lens, func(n int32) bool {
			return int(n) > f.Window && int(n)%f.BlockSize == 0 && f.BlockSize > 1
		})
	})},
	{"positions of 16 bits before attention", "large positions", core.AttentionPre, masked("positions", 0xffff)},
}

// blindJointValues are those that do not show where values of all inputs, or of all tokens, are alike.
var blindJointValues = []blind{
	{"blocks of tokens without a label", "answers to long prompts", core.LinearCrossEntropy, where(unlabelled)},
	{"weights of experts of which none is likely", "unlikely experts", core.MoEGate,
		after("routing_weights", func(c *core.Call, v []float32) {
			logits := make([]float32, c.Input("logits").Elems())
			c.Input("logits").Load(logits, 0)
			for t := 0; c.Facts.Scoring == core.ScoringSigmoid && c.Facts.Normalize && t < c.Tokens(); t++ {
				if slices.Max(logits[t*c.Facts.Experts:][:c.Facts.Experts]) < -20 {
					v[t*c.Facts.TopK] /= 2
				}
			}
		})},
	{"no sum where the residual is zeros", "tokens of zeros", core.AddRMSNorm, inRowsOfZeros("residual", "h")},
	{"no gradient where that of y is zeros", "tokens without a gradient", core.AddRMSNorm, inRowsOfZeros("dy", "dx")},
	{"no gradient of up where it is zeros", "tokens of zeros", core.SwiGLU, inRowsOfZeros("up", "dup")},
	{"a block of queries without keys", "padding in front", core.Attention, where(func(c *core.Call) bool {
		keys, none, seen := c.Input("keys").Int32s(), 0, false
		for t := 0; t < len(keys); t += 2 {
			if keys[t] < keys[t+1] {
				none, seen = 0, true
			} else if none++; none == 32 && seen {
				return true
			}
		}
		return false
	})},
	{"several pieces over 16", "pieces", core.PagedAttention,
		where(func(c *core.Call) bool { return longPieces(c) > 1 })},
	{"no NaN in keys", "nan in keys", core.Attention, lost("k")},
	{"no NaN in values", "nan in values", core.Attention, lost("v")},
	{"no NaN in gradients", "nan in gradients", core.Attention, lost("dy")},
	{"no NaN in keys in blocks", "nan and inf", core.PagedAttention, lost("k_cache")},
	{"no NaN in values in blocks", "nan and inf", core.PagedAttention, lost("v_cache")},
	{"no NaN in a residual before attention", "nan and inf", core.AttentionPre, lost("residual")},
}
