package kerneltest_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// most is the largest size of an element of an input.
func most(c *core.Call, name string) float64 {
	high := 0.0
	v := make([]float32, c.Input(name).Elems())
	c.Input(name).Load(v, 0)
	for _, x := range v {
		if a := math.Abs(float64(x)); a > high && a <= math.MaxFloat32 {
			high = a
		}
	}
	return high
}

// firstOf is the first element of a token's row of an input.
func firstOf(c *core.Call, name string, token int) float64 {
	x, v := c.Input(name), make([]float32, 1)
	x.Load(v, token*x.Elems()/x.Shape[0])
	return float64(v[0])
}

// seenByLast is how many keys the last query of attention sees.
func seenByLast(c *core.Call) int {
	keys := c.Input("keys").Int32s()
	return int(keys[len(keys)-1] - keys[len(keys)-2])
}

// flushed makes numbers below the smallest with all digits zeros, as processors do that are
// told to.
func flushed(names ...string) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		flush := func(_ *core.Call, v []float32) {
			for i, x := range v {
				if math.Abs(float64(x)) < 0x1p-126 {
					v[i] = 0
				}
			}
		}
		for _, name := range names {
			for _, a := range c.Sig.In {
				if a.Name == name {
					inner := run
					run = func(c *core.Call) error { return withInput(name, flush)(inner, c) }
				}
			}
		}
		return run(c)
	}
}

// cutOff moves half of an output's numbers in bfloat16 to the next towards 0, as those are of which the digits
// that there is no room for are cut off.
func cutOff(output string) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if c.Facts.DType != core.BFloat16 {
			return run(c)
		}
		return after(output, func(_ *core.Call, v []float32) {
			for i, x := range v {
				if bits := math.Float32bits(x); i%2 == 0 && x != 0 {
					v[i] = math.Float32frombits(bits - 1<<16)
				}
			}
		})(run, c)
	}
}

// roundedTwice moves every fourth of an output's numbers in bfloat16 to a neighbour, to either side as often, as those
// are that were rounded to that on their way.
func roundedTwice(output string) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if c.Facts.DType != core.BFloat16 {
			return run(c)
		}
		return after(output, func(_ *core.Call, v []float32) {
			for i := 0; i < len(v); i += 4 {
				if bits := math.Float32bits(v[i]); v[i] != 0 && v[i] == v[i] {
					v[i] = math.Float32frombits(bits + uint32(i/4%2*2-1)<<16)
				}
			}
		})(run, c)
	}
}

// half rounds a float32 output to bfloat16.
func half(output string) func(runFunc, *core.Call) error {
	return after(output, func(c *core.Call, v []float32) {
		for i, x := range v {
			if c.Facts.DType != core.Float32 {
				v[i] = core.BFloat16ToFloat32(core.Float32ToBFloat16(x))
			}
		}
	})
}

// saturated makes of infinities the largest numbers of float16.
func saturated(output string) func(runFunc, *core.Call) error {
	return after(output, func(c *core.Call, v []float32) {
		for i := range v {
			if c.Facts.DType == core.Float16 {
				v[i] = max(-65504, min(v[i], 65504))
			}
		}
	})
}

// noNaN makes zeros of what is NaN in an output, as where tokens or elements without a gradient are left out.
func noNaN(output string) func(runFunc, *core.Call) error {
	return after(output, func(_ *core.Call, v []float32) {
		for i, x := range v {
			if x != x {
				v[i] = 0
			}
		}
	})
}

// lost is noNaN of an input.
func lost(input string) func(runFunc, *core.Call) error {
	return changed(input, func(_ *core.Call, v []float32) {
		for i, x := range v {
			if x != x {
				v[i] = 0
			}
		}
	})
}

// hiddenFirst makes an output NaN if it is of keys of which one is infinite, as where the highest score of a block is
// taken from those of it.
func hiddenFirst(keys, output string) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, output) {
			k := make([]float32, c.Input(keys).Elems())
			c.Input(keys).Load(k, 0)
			if slices.ContainsFunc(k, func(x float32) bool { return math.IsInf(float64(x), -1) }) {
				change(c.Output(output), func(v []float32) { v[len(v)-1] = float32(math.NaN()) })
			}
		}
		return err
	}
}

// severalGroupsOfThree spoils calls of more than one head of k, each of three heads of q.
var severalGroupsOfThree = where(func(c *core.Call) bool { return group(c) == 3 && c.Facts.KVHeads > 1 })

func tooLarge(input string, limit float64) func(runFunc, *core.Call) error {
	return where(func(c *core.Call) bool { return most(c, input) > limit })
}

const (
	combined   = "combinations of facts"
	nanToInt8  = "a nan among numbers that become int8"
	idleExpert = "nan in an expert of no token"
)

// zeroIsOne is what is done to the scale of a row of zeros, done to an input.
func zeroIsOne(input string) func(runFunc, *core.Call) error {
	return changed(input, func(_ *core.Call, v []float32) {
		for i, x := range v {
			if x == 0 {
				v[i] = 1
			}
		}
	})
}

// timesIdle adds to an output what experts that no token goes to have, times 0, as where all experts are computed.
func timesIdle(output string) func(runFunc, *core.Call) error {
	return after(output, func(c *core.Call, v []float32) {
		if c.Facts.Layout != core.Packed {
			return
		}
		down := make([]float32, c.Input("down").Elems())
		c.Input("down").Load(down, 0)
		each := len(down) / c.Facts.Experts
		for e := range c.Facts.Experts {
			if !slices.Contains(c.Input("expert_ids").Int32s(), int32(e)) {
				v[0] += 0 * down[e*each]
			}
		}
	})
}

// blindValues are bugs in what arithmetic does at its ends.
var blindValues = []blind{
	{"a scale of 0 taken for 1", "scales of 0", core.LinearW8A8, zeroIsOne("weight_scale")},
	{"a scale of 0 taken for 1 before attention", "scales of 0", core.AttentionPre, zeroIsOne("k_weight_scale")},
	{"a scale of 0 taken for 1 in down", "scales of 0", core.SharedExpertFFN, zeroIsOne("down_scale")},
	{"no NaN in a scale behind int8", "nan and inf in the rest", core.LinearW8A8, lost("weight_scale")},
	{"no NaN in a bias behind int8", "nan and inf in the rest", core.LinearW8A8, lost("bias")},
	{"no NaN in the largest h", nanToInt8, core.SharedExpertFFN, lost("gate_scale")},
	{"no NaN in the largest number of a norm", nanToInt8, core.AttentionPre, lost("norm_weight")},
	{"experts of no token, times 0", idleExpert, core.MoEExperts, timesIdle("y")},
	{"gradients of experts of no token, times 0", idleExpert, core.MoEExperts, timesIdle("dx")},
	{"exp beyond 709", "far out on the curve", core.SwiGLU, func(run runFunc, c *core.Call) error {
		if c.Facts.Layout != core.Separate {
			return run(c)
		}
		return tooLarge("gate", 709)(run, c)
	}},
	{"products of at most 1e20", "tokens of all scales", core.SwiGLU, after("y", func(_ *core.Call, v []float32) {
		for i, x := range v {
			if math.Abs(float64(x)) <= math.MaxFloat32 {
				v[i] = max(-1e20, min(x, 1e20))
			}
		}
	})},
	{"softmax without its maximum", "far from zero", core.MoEGate, tooLarge("logits", 709)},
	{"scores over 709", "scores far above zero",
		core.Attention, where(func(c *core.Call) bool { return most(c, "k") > 60 && most(c, "q") == 32 })},
	{"a maximum that begins at 0", "scores far below zero", core.Attention, where(func(c *core.Call) bool {
		k := make([]float32, c.Input("k").Elems())
		c.Input("k").Load(k, 0)
		for j := 0; j < len(k); j += c.Facts.HeadDim * c.Facts.KVHeads {
			if k[j] > -50 {
				return false
			}
		}
		return true
	})},
	{"logits over 709", "logits far from zero", core.LinearCrossEntropy, tooLarge("x", 709)},
	{"smallest numbers are zeros", "smallest numbers", core.RMSNorm, flushed("x")},
	{"smallest values are zeros", "smallest numbers", core.Attention, flushed("v")},
	{"smallest numbers are zeros in up", "smallest numbers", core.SwiGLU, flushed("up", "gate_up")},
	{"smallest numbers are zeros in a rotation", "tokens of all scales", core.RoPE, flushed("q", "k")},
	{"gradients below 1e-30 are zeros", "gradients of all scales", core.RMSNorm, func(run runFunc, c *core.Call) error {
		if c.Pass == core.Forward {
			return run(c)
		}
		return withInput("dy", func(_ *core.Call, v []float32) {
			for i, x := range v {
				if math.Abs(float64(x)) < 1e-30 {
					v[i] = 0
				}
			}
		})(run, c)
	}},
	{"epsilon at least 1e-7", "epsilon beside the mean",
		core.RMSNorm, withFacts(func(f *core.Facts) { f.Eps = max(f.Eps, 1e-7) })},
	{"epsilon at least 1e-7 in the sum", "epsilon beside the mean",
		core.AddRMSNorm, withFacts(func(f *core.Facts) { f.Eps = max(f.Eps, 1e-7) })},
	{"mean of squares at most 1e9", "tokens of all scales", core.RMSNorm, withInput("x", func(_ *core.Call, v []float32) {
		for i := range v {
			v[i] = max(-1e9, min(v[i], 1e9))
		}
	})},
	{"saturates in half precision", "past the largest number", core.SwiGLU, saturated("y")},
	{"sin taken from cos", "rotations that scale", core.RoPE, withInput("sin", func(c *core.Call, v []float32) {
		for i, x := range c.Input("cos").Float32s() {
			v[i] = float32(math.Copysign(math.Sqrt(max(0, 1-float64(x)*float64(x))), float64(v[i])))
		}
	})},
	{"NaN times no label", "no loss where there is no label",
		core.LinearCrossEntropy, func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && c.Pass == core.Backward && !c.Facts.Frozen && most(c, "x") > 0 {
				x, w := c.Input("x"), c.Output("dweight").Float32s()
				v := make([]float32, x.Elems())
				x.Load(v, 0)
				for i, y := range c.Input("labels").Int32s() {
					if y < 0 && v[i*c.Facts.Dim] != v[i*c.Facts.Dim] {
						w[0] = float32(math.NaN())
					}
				}
			}
			return err
		}},
	{"no label times infinity", "no loss where there is no label", core.LinearCrossEntropy,
		after("dx", func(c *core.Call, v []float32) {
			for t, d := range c.Input("dlosses").Float32s() {
				if c.Input("labels").Int32s()[t] < 0 {
					v[t*c.Facts.Dim] = d * 0
				}
			}
		})},
	{"tokens after a sequence without any", "no new token between others", core.PagedAttention,
		after("y", func(c *core.Call, v []float32) {
			t, lens := 0, c.Input("query_lens").Int32s()
			for b := 0; b < len(lens) && lens[b] > 0; b++ {
				t += int(lens[b])
			}
			clear(v[t*c.Facts.Heads*c.Facts.HeadDim:])
		})},
	{"an adapter of zeros left out", "an adapter of zeros", core.Linear,
		after("dlora_b", func(c *core.Call, v []float32) {
			b := c.Input("lora_b").Float32s()
			if !slices.ContainsFunc(b, func(x float32) bool { return x != 0 }) {
				clear(v)
			}
		})},
	{"tokens without a gradient left out", "nan without a gradient", core.Linear, leftOut("dy", "x")},
	{"tokens without a gradient left out of a norm", "nan without a gradient", core.RMSNorm, leftOut("dy", "x")},
	{"tokens without a gradient left out before attention", "nan without a gradient", core.QKV, noNaN("dq_weight")},
	{"elements without a gradient left out", "nan without a gradient", core.SwiGLU, noNaN("dgate")},
	{"tokens of zeros left out", "nan and inf in weights", core.QKV, func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && c.Pass == core.Forward {
			zero := make([]bool, c.Tokens())
			x := make([]float32, c.Input("x").Elems())
			c.Input("x").Load(x, 0)
			for t := range zero {
				zero[t] = !slices.ContainsFunc(x[t*c.Facts.Dim:][:c.Facts.Dim], func(v float32) bool { return v != 0 })
			}
			change(c.Output("v"), func(v []float32) {
				for i := range v {
					if zero[i*len(zero)/len(v)] && !c.Facts.Bias {
						v[i] = 0
					}
				}
			})
		}
		return err
	}},
	{"smallest numbers are zeros in a weight", "smallest weights", core.Linear, flushed("weight")},
	{"smallest numbers are zeros before attention", "smallest activations", core.QKV, flushed("x")},
	{"no NaN in gradients of losses", "nan and inf in gradients", core.LinearCrossEntropy, lost("dlosses")},
	{"no NaN in a bias", "nan and inf in the rest", core.QKV, lost("k_bias")},
	{"no NaN in a rotation", "nan and inf in the rest", core.RoPE, lost("cos")},
	{"offsets of 8 bits", "an offset beyond int8", core.LinearW8A8, func(run runFunc, c *core.Call) error {
		if c.Facts.Scaling != core.StaticScaling {
			return run(c)
		}
		return withIndices("input_offset", func(_ *core.Call, v []int32) { v[0] = int32(int8(v[0])) })(run, c)
	}},
	{"NaN with a sign taken for a number", "nan and inf", core.MoEGate,
		changed("logits", func(_ *core.Call, v []float32) {
			for i, x := range v {
				if x != x && math.Signbit(float64(x)) {
					v[i] = float32(math.Inf(-1))
				}
			}
		})},
	{"a block of scores of -Inf first", "scores of -Inf first", core.Attention, hiddenFirst("k", "y")},
	{"a block of scores of -Inf first in a cache", "scores of -Inf first", core.PagedAttention,
		hiddenFirst("k_cache", "y")},
	{"a maximum that falls behind 1,024 keys", "scores that fall", core.Attention, where(func(c *core.Call) bool {
		return seenByLast(c) > 1024 && firstOf(c, "k", 0)-firstOf(c, "k", 1024) > 50
	})},
	{"a maximum that falls behind 512 tokens of a sequence", "scores that fall", core.PagedAttention,
		where(func(c *core.Call) bool {
			if c.Facts.BlockSize != 128 || c.Input("seq_lens").Int32s()[0] <= 512 {
				return false
			}
			blocks := c.Input("block_tables").Int32s()
			return firstOf(c, "k_cache", int(blocks[0]))-firstOf(c, "k_cache", int(blocks[4])) > 20
		})},
	{"1,024 scores of -Inf first", "scores of -Inf first", core.Attention, where(func(c *core.Call) bool {
		return seenByLast(c) > 1024 && math.IsInf(firstOf(c, "k", 1023), -1)
	})},
	{"groups of three heads, several of them", "random", core.Attention, severalGroupsOfThree},
	{"groups of three heads in blocks, several of them", "random", core.PagedAttention, severalGroupsOfThree},
	{"8 experts of 256 in groups", "random", core.MoEGate,
		where(func(c *core.Call) bool { return numExperts(c) == 256 && topK(c) == 8 && c.Facts.Groups > 1 })},
	{"the first word of a block of 4,096", "labels at the ends of blocks", core.LinearCrossEntropy,
		where(func(c *core.Call) bool { return slices.Contains(c.Input("labels").Int32s(), 4096) })},
	{"the last word of the first half", "labels at the ends of blocks", core.LinearCrossEntropy,
		where(func(c *core.Call) bool {
			return vocab(c) > 1024 && slices.Contains(c.Input("labels").Int32s(), int32(vocab(c)/2-1))
		})},
	{"products that saturate in half precision", "past the largest number", core.Linear, saturated("y")},
	{"sums that saturate in half precision", "past the largest number", core.AddRMSNorm, saturated("h")},
	{"gradients that saturate in half precision", "past the largest number", core.LinearCrossEntropy, saturated("dx")},
	{"no NaN in a weight", "nan and inf in weights", core.Linear, lost("weight")},
	{"the map of NF4 taken for whole numbers", "random", core.Linear, func(run runFunc, c *core.Call) error {
		if c.Facts.WeightDType != core.NF4 {
			return run(c)
		}
		return withInput("weight_scale", func(_ *core.Call, v []float32) {
			for i := range 1 << 8 {
				v[i] = float32(int8(i))
			}
		})(run, c)
	}},
	{"what lies behind an input, times 0", "random", core.RMSNorm, after("y", func(c *core.Call, v []float32) {
		if x := c.Input("x"); x.DType == core.Float32 {
			v[len(v)-1] += 0 * *(*float32)(unsafe.Pointer(beside(x, len(x.Data))))
		}
	})},
	{"partial sums in bfloat16", "random", core.Linear, roundedTwice("y")},
	{"gradients rounded twice in bfloat16", "random", core.Attention, roundedTwice("dk")},
	{"bfloat16 truncated", "random", core.Linear, cutOff("y")},
	{"gradients in bfloat16 truncated", "random", core.QKV, cutOff("dx")},
	{"a bias of frozen weights in bfloat16", combined, core.QKV, where(func(c *core.Call) bool {
		return c.Facts.Bias && c.Facts.Frozen && c.Facts.DType == core.BFloat16 && c.Facts.WeightDType == core.BFloat16
	})},
	{"an offset of frozen weights in bfloat16", combined, core.RMSNorm, where(func(c *core.Call) bool {
		return c.Facts.Offset > 0 && c.Facts.Frozen && c.Facts.WeightDType == core.BFloat16 &&
			c.Facts.Cast == core.CastBeforeWeight
	})},
	{"NF4 in float16 with a bias and no adapter", combined, core.Linear, where(func(c *core.Call) bool {
		return c.Facts.WeightDType == core.NF4 && c.Facts.DType == core.Float16 && c.Facts.Bias && c.Facts.Rank == 0 &&
			c.Facts.Products == core.BFloat16
	})},
	{"negative weights of experts", "weights of any size",
		core.MoEExperts, withInput("routing_weights", func(_ *core.Call, v []float32) {
			for i := range v {
				v[i] = max(v[i], 0)
			}
		})},
	{"over 64 rows of one of over 64 experts", "most to one of many experts", core.MoEExperts,
		where(func(c *core.Call) bool { return numExperts(c) > 64 && capacity(c) > 64 })},
	{"skips light experts", "tiny weight", core.MoEExperts, func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, "drouting_weights") {
			for i, p := range c.Input("routing_weights").Float32s() {
				if p < 1e-5 {
					c.Output("drouting_weights").Float32s()[i] = 0
				}
			}
		}
		return err
	}},
	{"sigmoids as exp(z)/(1+exp(z))", "far from zero", core.MoEGate, where(func(c *core.Call) bool {
		return c.Facts.Scoring == core.ScoringSigmoid && most(c, "logits") > 709
	})},
	{"softmax with a bias", "sizes of all at once",
		core.MoEGate, where(func(c *core.Call) bool { return c.Facts.Scoring == core.ScoringSoftmax && c.Facts.Bias })},
	{"epsilon at most 1e-5", "epsilon beside the mean",
		core.RMSNorm, withFacts(func(f *core.Facts) { f.Eps = min(f.Eps, 1e-5) })},
	{"epsilon where there is none", "epsilon beside the mean", core.RMSNorm, withFacts(func(f *core.Facts) {
		if f.Eps == 0 {
			f.Eps = 1e-6
		}
	})},
	{"skips experts of weight 0", "weights of 0 and 1", core.MoEExperts, func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, "drouting_weights") {
			for i, p := range c.Input("routing_weights").Float32s() {
				if p == 0 {
					c.Output("drouting_weights").Float32s()[i] = 0
				}
			}
		}
		return err
	}},
	{"skipped tokens are not written", "tokens without a gradient",
		core.LinearCrossEntropy, func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && has(c, "dx") {
				change(c.Output("dx"), func(v []float32) {
					for i, d := range c.Input("dlosses").Float32s() {
						if d == 0 {
							v[i*c.Facts.Dim] = 7
						}
					}
				})
			}
			return err
		}},
	{"no label among more than eight", "no label", core.LinearCrossEntropy, func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, "dweight") && c.Tokens() > 8 && slices.Max(c.Input("labels").Int32s()) < 0 {
			c.Output("dweight").Float32s()[0] = 1
		}
		return err
	}},
	{"keys to come", "keys to come", core.Attention, where(func(c *core.Call) bool {
		v := c.Input("keys").Int32s()
		return v[0] == 1 && len(v) > 4 && v[2] == 2 && v[1] == v[3]
	})},
	{"rstd in bfloat16", "random", core.RMSNorm, half("rstd")},
	{"dweight in bfloat16", "random", core.RMSNorm, half("dweight")},
	{"lse in bfloat16", "random", core.Attention, half("lse")},
	{"losses in bfloat16", "random", core.LinearCrossEntropy, half("losses")},
	{"routing weights in bfloat16", "many tokens", core.MoEGate, half("routing_weights")},
	{"gradients of experts in bfloat16", "random", core.MoEExperts, half("dgate_up")},
	{"small tokens in bfloat16", "tokens of all scales", core.SwiGLU, after("y", func(_ *core.Call, v []float32) {
		for i, x := range v {
			if math.Abs(float64(x)) < 1e-6 {
				v[i] = core.BFloat16ToFloat32(core.Float32ToBFloat16(x))
			}
		}
	})},
}

// TestExtremesFindBugsInArithmetic: each bug is found by the kind of case that docs/verify.md names.
func TestExtremesFindBugsInArithmetic(t *testing.T) {
	findAll(t, slices.Concat(blindValues, blindJointValues), func(op core.Op) []kerneltest.Case {
		return slices.Concat(kerneltest.Cases(op), kerneltest.Extremes(op), kerneltest.Sizes(op))
	})
}

// otherOrder computes rms_norm's dx as rstd*g - x*rstd^3*mean, in float32, as is done.
func otherOrder(run runFunc, c *core.Call) error {
	err := run(c)
	if err != nil || c.Pass == core.Forward || c.Facts.DType != core.Float32 {
		return err
	}
	D, dx := c.Facts.Dim, c.Output("dx").Float32s()
	x, dy, w := c.Input("x").Float32s(), c.Input("dy").Float32s(), c.Input("weight").Float32s()
	for t, r := range c.Input("rstd").Float32s() {
		sum := float32(0)
		for i := range D {
			sum += dy[t*D+i] * (w[i] + float32(c.Facts.Offset)) * x[t*D+i]
		}
		for i := range D {
			dx[t*D+i] = r*dy[t*D+i]*(w[i]+float32(c.Facts.Offset)) - x[t*D+i]*r*r*r*sum/float32(D)
		}
	}
	return nil
}

// oneIsNearlyOne has weights of one key, one word and one expert that are not quite 1.
func oneIsNearlyOne(output string) func(runFunc, *core.Call) error {
	return after(output, func(c *core.Call, v []float32) {
		for i, x := range v {
			if x == 0 && c.Facts.DType == core.Float32 {
				v[i] = 0x1p-25
			}
		}
	})
}

// TestGradientsThatCancelAreMeasuredByTheirTerms: what is left of terms that cancel is
// rounding, and no two right kernels agree in it.
func TestGradientsThatCancelAreMeasuredByTheirTerms(t *testing.T) {
	lce := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Vocab: 1}
	norm := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 1, Eps: 1e-5, Cast: core.CastBeforeWeight}
	gate := core.Facts{DType: core.Float32, Experts: 1, TopK: 1, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
		Normalize: true, Scale: 1}
	one := core.Facts{DType: core.Float32, HeadDim: 4, Heads: 2, KVHeads: 1}
	for _, tt := range []struct {
		name   string
		op     core.Op
		f      core.Facts
		tokens int
		bug    func(runFunc, *core.Call) error
	}{
		{"a norm of one element", core.RMSNorm, norm, 70, otherOrder},
		{"attention to one key", core.Attention, one, 1, func(run runFunc, c *core.Call) error {
			return oneIsNearlyOne("dk")(func(c *core.Call) error { return oneIsNearlyOne("dq")(run, c) }, c)
		}},
		{"one word", core.LinearCrossEntropy, lce, 7, oneIsNearlyOne("dx")},
		{"one expert", core.MoEGate, gate, 7, oneIsNearlyOne("dlogits")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := kerneltest.Case{Name: tt.name, Op: tt.op, Facts: tt.f, Tokens: tt.tokens, Seed: 3,
				Edit: func(in map[string][]core.Tensor) {
					if y := in["labels"]; y != nil {
						clear(y[0].Int32s())
					}
				}}
			if err := kerneltest.Check(faulty{reference.Single(tt.op), tt.bug}, []kerneltest.Case{c}); err != nil {
				t.Error(err)
			}
		})
	}
	// A wrong gradient is one still.
	c := kerneltest.Case{Name: "norm", Op: core.RMSNorm, Facts: norm, Tokens: 70, Seed: 3}
	err := kerneltest.Check(faulty{reference.Single(core.RMSNorm), after("dx",
		func(_ *core.Call, v []float32) { v[3] += 1e-3 })}, []kerneltest.Case{c})
	if err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("error %v", err)
	}
}
