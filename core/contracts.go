// Code generated from the folders of internal/ops by go generate; DO NOT EDIT.

package core

import (
	"fmt"
	"math"
	"slices"
)

// contracts are those of all ops, in the order of Ops.
var contracts = []contract{
	addRMSNorm,
	attention,
	attentionPre,
	gateUpSwiGLU,
	linear,
	linearCrossEntropy,
	linearW8A8,
	moeExperts,
	moeGate,
	pagedAttention,
	qkv,
	reshapeAndCache,
	rmsNorm,
	rope,
	sharedExpertFFN,
	swiGLU,
}

// AddRMSNorm is h = x + residual and y = RMSNorm of h; it gives both, y and h.
const AddRMSNorm Op = "add_rms_norm"

var addRMSNorm = contract{op: AddRMSNorm, weights: true,
	valid:     func(f Facts, need func(ok bool, what string)) { rmsNorm.valid(f, need) },
	signature: addRMSNormSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work { // that of the norm, and an addition
		w := rmsNorm.work(pass, f, t, positions)
		w.Elementwise += t * float64(f.Dim)
		return w
	},
}

// addRMSNormSignature: y comes first, because it is the op's value, and h second, because
// somebody else reads it too. dx is the gradient of both terms of the sum.
func addRMSNormSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Dim}}
	rstd := Arg{Name: "rstd", DType: Float32, Shape: Shape{DimT}, Saved: true}
	h := named(x, "h")
	if pass == Forward {
		return Signature{In: []Arg{x, named(x, "residual"), weight}, Out: []Arg{named(x, "y"), h, rstd}}
	}
	h.Saved = true
	dx := named(x, "dx")
	dx.Also = "residual"
	return Signature{
		In:  []Arg{named(x, "dy"), named(x, "dh"), h, weight, rstd},
		Out: append([]Arg{dx}, gradients(f, weight)...),
	}
}

// Attention is y = softmax(q k^T / sqrt(head_dim)) v over a range of keys for each query.
const Attention Op = "attention"

var attention = contract{op: Attention,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
		need(f.KVHeads > 0 && f.Heads%f.KVHeads == 0, "heads must be a multiple of kv_heads")
	},
	signature: attentionSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work {
		return attentionWork(pass, f, t*(positions+1)/2)
	},
	workOf: func(c *Call) Work { return attentionWork(c.Pass, c.Facts, seen(c.Input("keys").Int32s())) },
}

// attentionSignature: keys holds the range [first, end) of keys that each query sees, as
// indices of tokens. A causal mask, packed documents, a batch of rows, padding and a
// sliding window are all ranges.
func attentionSignature(pass Pass, f Facts) Signature {
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	keys := Arg{Name: "keys", DType: Int32, Shape: Shape{DimT, 2},
		Points: Points{To: DimT, Ranges: true, Of: "not a range of the %d tokens"}}
	in := []Arg{q, k, named(k, "v"), keys}
	y := named(q, "y")
	lse := Arg{Name: "lse", DType: Float32, Shape: Shape{DimT, f.Heads}, Saved: true}
	if pass == Forward {
		return Signature{In: in, Out: []Arg{y, lse}}
	}
	dy := named(y, "dy")
	y.Saved = true
	return Signature{In: append(append([]Arg{dy}, in...), y, lse),
		Out: []Arg{named(q, "dq"), named(k, "dk"), named(k, "dv")}}
}

// seen returns how many pairs of a query and a key the ranges of attention have.
func seen(keys []int32) float64 {
	n := 0.0
	for i := 0; i+1 < len(keys); i += 2 {
		n += float64(max(keys[i+1]-keys[i], 0))
	}
	return n
}

// attentionWork: for every head and every pair of a query and a key that it sees, forward
// has a product with q and one with v; backward has the first again, because the scores
// are not saved, and two for each. Between them is a softmax.
func attentionWork(pass Pass, f Facts, pairs float64) Work {
	pairs *= float64(f.Heads)
	if pass == Backward {
		return Work{Products: 10 * pairs * float64(f.HeadDim), Elementwise: 6 * pairs}
	}
	return Work{Products: 4 * pairs * float64(f.HeadDim), Elementwise: 4 * pairs}
}

// AttentionPre is all of a decoder's layer before its attention: the residual added, the norm, q, k and v of that,
// norms of the heads of q and k, and their rotation.
const AttentionPre Op = "attention_pre"

var attentionPre = contract{op: AttentionPre, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		rmsNorm.valid(f, need)
		rope.valid(f, need)
		switch f.Scaling {
		case "":
			need(f.WeightDType == Int8 || f.WeightDType == Float32 || f.WeightDType == BFloat16 || f.WeightDType == Float16 ||
				f.WeightDType == Float64, "weight_dtype must be a floating-point type or int8")
		default:
			need(f.WeightDType == Int8, "weights must be int8 where activations become that")
			linear := f
			linear.Out = f.Heads * f.HeadDim
			linearW8A8.valid(linear, need)
		}
	},
	signature: attentionPreSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work {
		w := qkvWork(pass, f, t, positions)
		heads := f
		heads.Dim = f.HeadDim
		parts := []Work{rmsNorm.work(pass, f, t, positions), rope.work(pass, f, t, positions)}
		if f.Residual {
			parts = append(parts, elementwise(pass, t*float64(f.Dim), 1, 0))
		}
		if f.QKNorm {
			parts = append(parts, rmsNorm.work(pass, heads, t*float64(f.Heads+f.KVHeads), positions))
		}
		for _, p := range parts {
			w.Elementwise += p.Elementwise
		}
		return w
	},
}

// attentionPreSignature: weights of norms are float32. Without static scaling the layers have what qkv has.
func attentionPreSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	layers, turn := qkvSignature(Forward, f), ropeSignature(Forward, f)
	s := Signature{In: []Arg{x}, Out: []Arg{named(turn.In[0], "q"), named(turn.In[1], "k"), named(turn.In[1], "v")}}
	if f.Residual {
		s.In, s.Out = append(s.In, named(x, "residual")), append(s.Out, named(x, "h"))
	}
	norm := func(prefix string, size int) {
		s.In = append(s.In, Arg{Name: prefix + "norm_weight", DType: Float32, Shape: Shape{size}})
		if f.NormBias {
			s.In = append(s.In, Arg{Name: prefix + "norm_bias", DType: Float32, Shape: Shape{size}})
		}
	}
	norm("", f.Dim)
	if f.Scaling == StaticScaling {
		s.In = append(s.In, Arg{Name: "input_scale", DType: Float32, Shape: Shape{1}},
			Arg{Name: "input_offset", DType: Int32, Shape: Shape{1}})
		for _, w := range layers.In[1:4] {
			part, rows := w.Name[:1], w.Shape[:1]
			s.In = append(s.In, w, Arg{Name: part + "_deq_scale", DType: Float32, Shape: rows},
				Arg{Name: part + "_quant_bias", DType: Int32, Shape: rows})
		}
	} else {
		s.In = append(s.In, layers.In[1:]...)
	}
	if f.QKNorm {
		norm("q_", f.HeadDim)
		norm("k_", f.HeadDim)
	}
	s.In = append(s.In, turn.In[2:]...) // the tables, and positions
	return s
}

// GateUpSwiGLU is y = silu(gate x) * (up x): the two linear layers before swiglu, and that.
const GateUpSwiGLU Op = "gate_up_swiglu"

var gateUpSwiGLU = contract{op: GateUpSwiGLU, weights: true, int8: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Intermediate > 0, "dim and intermediate must be positive")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: gateUpSignature,
	work:      gateUpWork,
}

// gateUpSignature: without the fact recompute, what swiglu is of is saved, as moe_experts saves it.
func gateUpSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Intermediate}}
	gate := Arg{Name: "gate", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}}
	weights := []Arg{gate, named(gate, "up")}
	if f.Layout == Packed {
		weights = []Arg{{Name: "gate_up", DType: f.WeightDType, Shape: Shape{2 * f.Intermediate, f.Dim}}}
	}
	var saved []Arg
	if !f.Recompute {
		saved = []Arg{{Name: "gate_up_out", DType: f.DType, Shape: Shape{DimT, 2 * f.Intermediate}, Saved: true}}
	}
	in := append([]Arg(nil), weights...)
	for _, w := range weights {
		if f.WeightDType == Int8 {
			in = append(in, Arg{Name: w.Name + "_scale", DType: Float32, Shape: w.Shape[:1]})
		}
	}
	if pass == Forward {
		return Signature{In: append([]Arg{x}, in...), Out: append([]Arg{y}, saved...)}
	}
	before := []Arg{named(y, "dy")}
	if !f.Frozen || f.Recompute {
		before = append(before, x)
	}
	return Signature{In: append(append(before, in...), saved...),
		Out: append([]Arg{named(x, "dx")}, gradients(f, weights...)...)}
}

// gateUpWork: two products forward, and backward two for each of these, one if the weights are
// frozen, after those of the forward pass if they are not saved; and a swiglu.
func gateUpWork(pass Pass, f Facts, t, _ float64) Work {
	products := 4 * t * float64(f.Dim) * float64(f.Intermediate)
	w := elementwise(pass, t*float64(f.Intermediate), 5, 10)
	if w.Products = products; pass == Backward {
		if !f.Frozen {
			w.Products += products
		}
		if f.Recompute {
			w.Products += products
		}
		w.Elementwise += t * float64(f.Dim) // two products are added to one dx
	}
	return w
}

// Linear is y = x weight^T + bias + scale * (x A^T) B^T: a linear layer and its low-rank adapter.
const Linear Op = "linear"

var linear = contract{op: Linear, weights: true, int8: true, nf4: true, products: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Out > 0, "dim and out must be positive")
		need(f.Rank >= 0, "rank must not be negative")
		need((f.Rank > 0) == (f.Scale != 0), "an adapter has a rank and a scale that is not 0, and nothing else has either")
		need(math.Abs(f.Scale) <= math.MaxFloat32, "scale must be finite")
	},
	signature: linearSignature,
	work:      linearWork,
}

// linearSignature: weights have their own storage, which for int8 is whole numbers, those of
// each row to be multiplied by an element of weight_scale, and for NF4 what NF4Sizes says. Bias
// and adapter are float32, as they are small, and as adapters are trained. A frozen weight without
// an adapter spares the backward pass x.
func linearSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Out}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Out, f.Dim}}
	weights := []Arg{weight}
	switch f.WeightDType {
	case Int8:
		weights = append(weights, Arg{Name: "weight_scale", DType: Float32, Shape: Shape{f.Out}})
	case NF4:
		blocks, scales := NF4Sizes(f.Dim * f.Out)
		weights = append(weights, Arg{Name: "weight_absmax", DType: Int8, Shape: Shape{blocks}},
			Arg{Name: "weight_scale", DType: Float32, Shape: Shape{scales}})
	}
	bias := Arg{Name: "bias", DType: Float32, Shape: Shape{f.Out}}
	a := Arg{Name: "lora_a", DType: Float32, Shape: Shape{f.Rank, f.Dim}}
	b := Arg{Name: "lora_b", DType: Float32, Shape: Shape{f.Out, f.Rank}}
	if pass == Forward {
		in := append([]Arg{x}, weights...)
		if f.Bias {
			in = append(in, bias)
		}
		if f.Rank > 0 {
			in = append(in, a, b)
		}
		return Signature{In: in, Out: []Arg{y}}
	}
	in, out := []Arg{named(y, "dy")}, append([]Arg{named(x, "dx")}, gradients(f, weight)...)
	if !f.Frozen || f.Rank > 0 {
		in = append(in, x)
	}
	in = append(in, weights...)
	if f.Bias {
		out = append(out, gradients(f, bias)...)
	}
	if f.Rank > 0 {
		in = append(in, a, b)
		f.Frozen = false
		out = append(out, gradients(f, a, b)...)
	}
	return Signature{In: in, Out: out}
}

// linearWork: a product for y, and backward one for each gradient. The adapter has two small
// ones forward, and four backward; x A^T is not saved, so that backward has it once more.
func linearWork(pass Pass, f Facts, t, _ float64) Work {
	product := 2 * t * float64(f.Dim) * float64(f.Out)
	a, b := 2*t*float64(f.Rank)*float64(f.Dim), 2*t*float64(f.Rank)*float64(f.Out)
	var w Work
	switch {
	case pass == Forward:
		w.Products = product + a + b
	case f.Frozen:
		w.Products = product + 3*a + 2*b
	default:
		w.Products = 2*product + 3*a + 2*b
	}
	if f.Bias && (pass == Forward || !f.Frozen) {
		w.Elementwise = t * float64(f.Out)
	}
	return w
}

// LinearCrossEntropy is -log softmax(x weight^T)[label], without the logits.
const LinearCrossEntropy Op = "linear_cross_entropy"

var linearCrossEntropy = contract{op: LinearCrossEntropy, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Vocab > 0, "dim and vocab must be positive")
	},
	signature: linearCrossEntropySignature,
	work:      lossWork,
}

// linearCrossEntropySignature: backward gives the losses too, because it computes them
// on its way. Who needs both passes at once runs backward alone.
func linearCrossEntropySignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Vocab, f.Dim}}
	labels := Arg{Name: "labels", DType: Int32, Shape: Shape{DimT},
		Points: Points{To: f.Vocab, Some: true, Of: "the vocabulary has %d"}}
	losses := Arg{Name: "losses", DType: Float32, Shape: Shape{DimT}}
	if f.DType == Float64 {
		losses.DType = Float64
	}
	if pass == Forward {
		return Signature{In: []Arg{x, weight, labels}, Out: []Arg{losses}}
	}
	return Signature{In: []Arg{named(losses, "dlosses"), x, weight, labels},
		Out: slices.Concat([]Arg{named(x, "dx")}, gradients(f, weight), []Arg{losses})}
}

// lossWork: every logit is a product with a row of the weight, in both passes, because
// logits are not saved; backward has one more for each gradient.
func lossWork(pass Pass, f Facts, t, _ float64) Work {
	logits, dim := t*float64(f.Vocab), float64(f.Dim)
	if pass == Backward {
		products := 6.0
		if f.Frozen {
			products = 4
		}
		return Work{Products: products * logits * dim, Elementwise: 4 * logits}
	}
	return Work{Products: 2 * logits * dim, Elementwise: 3 * logits}
}

// LinearW8A8 is y = scale * (q weight^T) + bias with int8 q of x and int8 weights: whole numbers are multiplied
// and added up exactly.
const LinearW8A8 Op = "linear_w8a8"

// maxInt8Terms is how many products of two int8 a sum may have, so that none leaves int32.
const maxInt8Terms = 1<<17 - 1

var linearW8A8 = contract{op: LinearW8A8, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Dim <= maxInt8Terms, "dim must be positive, and below 131072, so that sums fit int32")
		need(f.Out > 0, "out must be positive")
		need(f.Scaling == StaticScaling || f.Scaling == DynamicScaling, "scaling must be static or dynamic")
		need(f.Scaling == DynamicScaling || !f.Bias, "bias is for dynamic scaling: static has it in quant_bias")
	},
	signature: linearW8A8Signature,
	work: func(_ Pass, f Facts, t, _ float64) Work {
		w := Work{Products: 2 * t * float64(f.Dim) * float64(f.Out), Elementwise: t * (3*float64(f.Dim) + 3*float64(f.Out))}
		if f.Scaling == StaticScaling {
			w.Elementwise -= t * float64(f.Out)
		}
		return w
	},
}

// linearW8A8Signature: weights are int8 whatever the activations are, and never get a gradient.
func linearW8A8Signature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	in := []Arg{{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}},
		{Name: "weight", DType: Int8, Shape: Shape{f.Out, f.Dim}}}
	row := Arg{DType: Float32, Shape: Shape{f.Out}}
	if f.Scaling == StaticScaling {
		in = append(in, Arg{Name: "input_scale", DType: Float32, Shape: Shape{1}},
			Arg{Name: "input_offset", DType: Int32, Shape: Shape{1}},
			named(row, "deq_scale"), Arg{Name: "quant_bias", DType: Int32, Shape: Shape{f.Out}})
	} else {
		in = append(in, named(row, "weight_scale"))
	}
	if f.Bias {
		in = append(in, named(row, "bias"))
	}
	return Signature{In: in, Out: []Arg{{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Out}}}}
}

// MoEExperts sends each token through its top-k experts and sums their weighted outputs.
const MoEExperts Op = "moe_experts"

var moeExperts = contract{op: MoEExperts, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Intermediate > 0, "dim and intermediate must be positive")
		need(f.Experts > 0 && f.TopK > 0 && f.TopK <= f.Experts, "top_k must be between 1 and experts")
		need(f.Layout == Packed || f.Layout == PerExpert, "layout must be packed or per_expert")
		need(f.Routing == RoutingSoftmax || f.Routing == RoutingNormalized || f.Routing == RoutingAny,
			"routing must be softmax, normalized or any")
		need(f.Activation != "", "activation must be named")
	},
	signature: moeSignature,
	work:      moeWork,
}

func moeSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	ids := Arg{Name: "expert_ids", DType: Int32, Shape: Shape{DimT, f.TopK}, Points: atExperts(f)}
	probs := Arg{Name: "routing_weights", DType: Float32, Shape: Shape{DimT, f.TopK}}
	saved := Arg{Name: "gate_up_out", DType: f.DType, Shape: Shape{DimT, f.TopK, 2 * f.Intermediate}, Saved: true}
	weights := []Arg{
		{Name: "gate_up", DType: f.WeightDType, Shape: Shape{f.Experts, 2 * f.Intermediate, f.Dim}},
		{Name: "down", DType: f.WeightDType, Shape: Shape{f.Experts, f.Dim, f.Intermediate}},
	}
	if f.Layout == PerExpert {
		weights = []Arg{
			{Name: "gate", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}, Count: f.Experts},
			{Name: "up", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}, Count: f.Experts},
			{Name: "down", DType: f.WeightDType, Shape: Shape{f.Dim, f.Intermediate}, Count: f.Experts},
		}
	}
	in := append([]Arg{x, ids, probs}, weights...)
	if pass == Forward {
		return Signature{In: in, Out: []Arg{named(x, "y"), saved}}
	}
	return Signature{In: append(append([]Arg{named(x, "dy")}, in...), saved),
		Out: append([]Arg{named(x, "dx"), named(probs, "drouting_weights")}, gradients(f, weights...)...)}
}

// moeWork: every assignment of a token to an expert is three products with a matrix of
// dim by intermediate, and backward two for each of these, one if the matrices are frozen;
// between them is a swiglu, and rows are weighted and summed.
func moeWork(pass Pass, f Facts, t, _ float64) Work {
	assignments, dim, intermediate := t*float64(f.TopK), float64(f.Dim), float64(f.Intermediate)
	if pass == Backward {
		w := Work{Products: 12 * assignments * dim * intermediate, Elementwise: assignments * (12*intermediate + 2*dim)}
		if f.Frozen {
			w.Products /= 2
		}
		return w
	}
	return Work{Products: 6 * assignments * dim * intermediate, Elementwise: assignments * (5*intermediate + 2*dim)}
}

// MoEGate chooses the top-k experts of each token by its router's logits, and weighs them.
const MoEGate Op = "moe_gate"

var moeGate = contract{op: MoEGate,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Experts > 0 && f.TopK > 0 && f.TopK <= f.Experts, "top_k must be between 1 and experts")
		need(f.Scoring == ScoringSoftmax || f.Scoring == ScoringSigmoid, "scoring must be softmax or sigmoid")
		need(f.Groups > 0 && f.Experts%max(f.Groups, 1) == 0, "groups must divide experts")
		need(f.Groups == 1 || f.Experts >= 2*f.Groups, "a group must have two experts at least")
		need(f.TopGroups > 0 && f.TopGroups <= f.Groups, "top_groups must be between 1 and groups")
		need(f.Scale > 0 && f.Scale <= math.MaxFloat32, "scale must be positive")
	},
	signature: moeGateSignature,
	// Of a logit: its score, the sum and a comparison; backward the score and the gradient.
	work: func(pass Pass, f Facts, t, _ float64) Work {
		return elementwise(pass, t*float64(f.Experts), 4, 6)
	},
}

// moeGateSignature: the outputs are inputs of moe_experts, by the same names. The weights
// come first, because no gradient passes through the ids.
func moeGateSignature(pass Pass, f Facts) Signature {
	logits := Arg{Name: "logits", DType: f.DType, Shape: Shape{DimT, f.Experts}}
	weights := Arg{Name: "routing_weights", DType: Float32, Shape: Shape{DimT, f.TopK}}
	ids := Arg{Name: "expert_ids", DType: Int32, Shape: Shape{DimT, f.TopK}, Choices: f.Experts}
	bias := Arg{Name: "bias", DType: Float32, Shape: Shape{f.Experts}}
	if f.DType == Float64 {
		weights.DType, bias.DType = Float64, Float64
	}
	if pass == Forward {
		s := Signature{In: []Arg{logits}, Out: []Arg{weights, ids}}
		if f.Bias {
			s.In = append(s.In, bias)
		}
		return s
	}
	ids.Saved, ids.Points = true, atExperts(f)
	return Signature{In: []Arg{named(weights, "drouting_weights"), logits, ids}, Out: []Arg{named(logits, "dlogits")}}
}

// PagedAttention is y = softmax(scale * q k^T) v of the last tokens of some sequences over all of their tokens,
// whose keys and values lie in blocks.
const PagedAttention Op = "paged_attention"

var pagedAttention = contract{op: PagedAttention, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		attention.valid(f, need)
		need(f.BlockSize > 0, "block_size must be positive")
		need(f.Window >= 0, "window must not be negative")
		need(f.Scale > 0 && f.Scale <= maxScale, "scale must be positive and finite")
	},
	signature: pagedAttentionSignature,
	check:     checkTables,
	work: func(_ Pass, f Facts, t, positions float64) Work {
		return attentionWork(Forward, f, t*(positions+1)/2)
	},
	workOf: func(c *Call) Work {
		pairs, lens := 0, c.Input("seq_lens").Int32s()
		for b, n := range c.Input("query_lens").Int32s() {
			for i := range int(n) {
				seen := max(int(lens[b])-int(n)+i+1, 0)
				if w := c.Facts.Window; w > 0 {
					seen = min(seen, w)
				}
				pairs += seen
			}
		}
		return attentionWork(Forward, c.Facts, float64(pairs))
	},
}

// maxScale is more than any model multiplies scores by.
const maxScale = 1 << 20

// pagedAttentionSignature: token j of sequence b lies in block block_tables[b, j/block_size], in the place
// j%block_size. The tokens of q are the last query_lens[b] of each sequence, one sequence after the other.
func pagedAttentionSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	cache := Arg{Name: "k_cache", DType: f.DType, Shape: Shape{DimP, f.BlockSize, f.KVHeads, f.HeadDim}}
	return Signature{In: []Arg{q, cache, named(cache, "v_cache"),
		{Name: "block_tables", DType: Int32, Shape: Shape{DimB, DimM},
			Points: Points{To: DimP, Some: true, Of: "the cache has %d blocks"}},
		{Name: "query_lens", DType: Int32, Shape: Shape{DimB}},
		{Name: "seq_lens", DType: Int32, Shape: Shape{DimB}},
	}, Out: []Arg{named(q, "y")}}
}

// checkTables verifies that no more queries are asked for than there are, and that each sequence has a block for
// each of its tokens.
func checkTables(c *Call) error {
	tables, queries, lens := c.Input("block_tables"), c.Input("query_lens").Int32s(), c.Input("seq_lens").Int32s()
	places, sum := tables.Shape[1], 0
	for b, n := range queries {
		if sum += int(n); n < 0 || sum > c.Tokens() {
			return fmt.Errorf("query_lens[%d] is %d, which makes %d of %d tokens", b, n, sum, c.Tokens())
		}
		blocks := (int(lens[b]) + c.Facts.BlockSize - 1) / c.Facts.BlockSize
		if lens[b] < 0 || blocks > places {
			return fmt.Errorf("seq_lens[%d] is %d; a table has %d places for blocks of %d", b, lens[b], places,
				c.Facts.BlockSize)
		}
		for i, block := range tables.Int32s()[b*places:][:blocks] {
			if block < 0 {
				return fmt.Errorf("block_tables[%d,%d] is %d, of a sequence of %d tokens", b, i, block, lens[b])
			}
		}
	}
	return nil
}

// QKV is the three linear layers before attention, q, k and v, of one input.
const QKV Op = "qkv"

var qkv = contract{op: QKV, weights: true, int8: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0, "dim must be positive")
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
	},
	signature: qkvSignature,
	work:      qkvWork,
}

// qkvSignature: each of the three has what linear has, without an adapter.
func qkvSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	var y, dy, weights, scales, biases []Arg
	for _, name := range []string{"q", "k", "v"} {
		rows := f.KVHeads * f.HeadDim
		if name == "q" {
			rows = f.Heads * f.HeadDim
		}
		y = append(y, Arg{Name: name, DType: f.DType, Shape: Shape{DimT, rows}})
		dy = append(dy, Arg{Name: "d" + name, DType: f.DType, Shape: Shape{DimT, rows}})
		weights = append(weights, Arg{Name: name + "_weight", DType: f.WeightDType, Shape: Shape{rows, f.Dim}})
		if f.WeightDType == Int8 {
			scales = append(scales, Arg{Name: name + "_weight_scale", DType: Float32, Shape: Shape{rows}})
		}
		if f.Bias {
			biases = append(biases, Arg{Name: name + "_bias", DType: Float32, Shape: Shape{rows}})
		}
	}
	in := append(weights[:3:3], scales...)
	if pass == Forward {
		return Signature{In: append(append([]Arg{x}, in...), biases...), Out: y}
	}
	if !f.Frozen {
		dy = append(dy, x)
	}
	return Signature{In: append(dy, in...),
		Out: append([]Arg{named(x, "dx")}, gradients(f, append(weights, biases...)...)...)}
}

// qkvWork is that of a linear layer with the rows of all three.
func qkvWork(pass Pass, f Facts, t, positions float64) Work {
	f.Out = (f.Heads + 2*f.KVHeads) * f.HeadDim
	w := linearWork(pass, f, t, positions)
	if pass == Backward { // three products are added to one dx
		w.Elementwise += 2 * t * float64(f.Dim)
	}
	return w
}

// ReshapeAndCache stores the keys and values of new tokens in the blocks of a cache.
const ReshapeAndCache Op = "reshape_and_cache"

var reshapeAndCache = contract{op: ReshapeAndCache, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.KVHeads > 0, "head_dim and kv_heads must be positive")
		need(f.BlockSize > 0, "block_size must be positive")
	},
	signature: reshapeAndCacheSignature,
	check: func(c *Call) error {
		taken := map[int32]int{}
		for t, slot := range c.Input("slots").Int32s() {
			if other, ok := taken[slot]; ok && slot >= 0 {
				return fmt.Errorf("slots[%d] is %d, which slots[%d] is, too", t, slot, other)
			}
			taken[slot] = t
		}
		return nil
	},
	work: stores,
	workOf: func(c *Call) Work { // the caches are not written whole
		w := stores(Forward, c.Facts, float64(c.Tokens()), 0)
		w.Bytes = -2 * int64(len(c.Out[0].Data)-len(c.In[0].Data))
		return w
	},
}

// stores counts an operation for each element, so that calls can be told by their size.
func stores(_ Pass, f Facts, t, _ float64) Work {
	return Work{Elementwise: 2 * t * float64(f.KVHeads*f.HeadDim)}
}

// reshapeAndCacheSignature: the slot of a token is block*block_size plus its place there, negative for a token that is
// not to be stored.
func reshapeAndCacheSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	cache := Arg{Name: "k_cache", DType: f.DType, Shape: Shape{DimP, f.BlockSize, f.KVHeads, f.HeadDim}, Keeps: true}
	return Signature{In: []Arg{k, named(k, "v"),
		{Name: "slots", DType: Int32, Shape: Shape{DimT},
			Points: Points{To: DimP, Each: f.BlockSize, Some: true, Of: "the cache has %d slots"}},
	}, Out: []Arg{cache, named(cache, "v_cache")}}
}

// RMSNorm is y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps).
const RMSNorm Op = "rms_norm"

var rmsNorm = contract{op: RMSNorm, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0, "dim must be positive")
		need(f.Eps >= 0, "eps must not be negative")
		need(f.Offset == 0 || f.Offset == 1, "offset must be 0 or 1")
		need(f.Cast == CastBeforeWeight || f.Cast == CastAfterWeight, "cast must be before_weight or after_weight")
	},
	signature: rmsNormSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work {
		if f.Frozen { // two operations of the nine are for the weight's gradient
			return elementwise(pass, t*float64(f.Dim), 4, 7)
		}
		return elementwise(pass, t*float64(f.Dim), 4, 9)
	},
}

func rmsNormSignature(pass Pass, f Facts) Signature {
	a, w := f.DType, f.WeightDType
	x := Arg{Name: "x", DType: a, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: w, Shape: Shape{f.Dim}}
	rstd := Arg{Name: "rstd", DType: Float32, Shape: Shape{DimT}, Saved: true}
	if pass == Forward {
		return Signature{In: []Arg{x, weight}, Out: []Arg{named(x, "y"), rstd}}
	}
	return Signature{
		In:  []Arg{named(x, "dy"), x, weight, rstd},
		Out: append([]Arg{named(x, "dx")}, gradients(f, weight)...),
	}
}

// RoPE rotates the first rotary_dim elements of each head of q and k.
const RoPE Op = "rope"

var rope = contract{op: RoPE,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
		need(f.RotaryDim > 0 && f.RotaryDim%2 == 0 && f.RotaryDim <= f.HeadDim,
			"rotary_dim must be even and within head_dim")
		need(f.Pairing == Half || f.Pairing == Interleaved, "pairing must be half or interleaved")
	},
	signature: ropeSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work { // a pair takes four multiplications and two additions
		return elementwise(pass, t*float64(f.Heads+f.KVHeads)*float64(f.RotaryDim), 3, 3)
	},
}

func ropeSignature(pass Pass, f Facts) Signature {
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	tables := []Arg{
		{Name: "cos", DType: Float32, Shape: Shape{DimP, f.RotaryDim / 2}},
		{Name: "sin", DType: Float32, Shape: Shape{DimP, f.RotaryDim / 2}},
		{Name: "positions", DType: Int32, Shape: Shape{DimT}, Points: Points{To: DimP, Of: "the tables have %d rows"}},
	}
	if pass == Forward {
		return Signature{In: append([]Arg{q, k}, tables...), Out: []Arg{named(q, "q_out"), named(k, "k_out")}}
	}
	return Signature{
		In:  append([]Arg{named(q, "dq_out"), named(k, "dk_out")}, tables...),
		Out: []Arg{named(q, "dq"), named(k, "dk")},
	}
}

// SharedExpertFFN is y = down(silu(gate x) * (up x)), the feed-forward block that every token goes through, with
// int8 weights and activations: whole numbers are multiplied and added up exactly.
const SharedExpertFFN Op = "shared_expert_ffn"

var sharedExpertFFN = contract{op: SharedExpertFFN, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		fits := func(n int) bool { return n > 0 && n <= maxInt8Terms }
		need(fits(f.Dim) && fits(f.Intermediate),
			"dim and intermediate must be positive, and below 131072, so that sums fit int32")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: sharedExpertFFNSignature,
	work: func(_ Pass, f Facts, t, _ float64) Work {
		d, i := float64(f.Dim), float64(f.Intermediate)
		// A token becomes int8, then what swiglu gives does, and sums become numbers again.
		return Work{Products: 6 * t * d * i, Elementwise: t * (6*d + 14*i)}
	},
}

// sharedExpertFFNSignature: weights are int8 whatever the activations are, and never get a gradient.
func sharedExpertFFNSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	gate := Arg{Name: "gate", DType: Int8, Shape: Shape{f.Intermediate, f.Dim}}
	weights := []Arg{gate, named(gate, "up")}
	if f.Layout == Packed {
		weights = []Arg{{Name: "gate_up", DType: Int8, Shape: Shape{2 * f.Intermediate, f.Dim}}}
	}
	weights = append(weights, Arg{Name: "down", DType: Int8, Shape: Shape{f.Dim, f.Intermediate}})
	in := append([]Arg{x}, weights...)
	for _, w := range weights {
		in = append(in, Arg{Name: w.Name + "_scale", DType: Float32, Shape: w.Shape[:1]})
	}
	return Signature{In: in, Out: []Arg{named(x, "y")}}
}

// SwiGLU is y = silu(gate) * up.
const SwiGLU Op = "swiglu"

var swiGLU = contract{op: SwiGLU,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Intermediate > 0, "intermediate must be positive")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: swigluSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work {
		return elementwise(pass, t*float64(f.Intermediate), 5, 10)
	},
}

func swigluSignature(pass Pass, f Facts) Signature {
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Intermediate}}
	in := []Arg{named(y, "gate"), named(y, "up")}
	if f.Layout == Packed {
		in = []Arg{{Name: "gate_up", DType: f.DType, Shape: Shape{DimT, 2 * f.Intermediate}}}
	}
	if pass == Forward {
		return Signature{In: in, Out: []Arg{y}}
	}
	out := make([]Arg, len(in))
	for i, a := range in {
		out[i] = named(a, "d"+a.Name)
	}
	return Signature{In: append([]Arg{named(y, "dy")}, in...), Out: out}
}
