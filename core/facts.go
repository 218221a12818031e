package core

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Layout says how a pair or a set of matrices lies in memory.
type Layout string

// The layouts. Packed always has the gate first: rows [0, I) gate, [I, 2I) up.
const (
	Separate Layout = "separate" // swiglu: gate [T, I] and up [T, I]; gate_up_swiglu: weights, each [I, D]
	// swiglu: gate_up [T, 2I]; gate_up_swiglu: a weight [2I, D]; moe_experts: gate_up [E, 2I, D], down [E, D, I]
	Packed    Layout = "packed"
	PerExpert Layout = "per_expert" // moe_experts: gate, up and down of each expert on their own
)

// Pairing says which elements of a head rotate together.
type Pairing string

// The rotary pairings.
const (
	Half        Pairing = "half"        // element i with i + rotary_dim/2 (Llama, Qwen, GLM-4.5)
	Interleaved Pairing = "interleaved" // element 2i with 2i + 1 (GLM-4)
)

// CastOrder says where rms_norm rounds to the storage dtype.
type CastOrder string

// The cast orders. They differ in half precision only.
const (
	CastBeforeWeight CastOrder = "before_weight" // round x*rstd, then multiply by the weight (Llama, Qwen, GLM)
	CastAfterWeight  CastOrder = "after_weight"  // everything in float32, round once (Gemma)
)

// Routing says what the routing weights of moe_experts are. The op multiplies by
// them either way; a kernel that relies on rows summing to 1 may say so.
type Routing string

// The routing weights.
const (
	RoutingSoftmax    Routing = "softmax"    // softmax over all experts, cut to the top k: rows sum to at most 1
	RoutingNormalized Routing = "normalized" // divided by their sum: rows sum to 1
	RoutingAny        Routing = "any"        // rows sum to anything, as scaled weights and plain sigmoids do
)

// Scoring says how moe_gate turns the logits of a token into scores.
type Scoring string

// The scorings.
const (
	ScoringSoftmax Scoring = "softmax" // over all experts (Qwen)
	ScoringSigmoid Scoring = "sigmoid" // each expert by itself (GLM-4.5)
)

// Scaling says how activations become int8.
type Scaling string

// The scalings.
const (
	StaticScaling  Scaling = "static"  // one scale and offset for all, which a calibration has found
	DynamicScaling Scaling = "dynamic" // a scale for each token, of its largest magnitude
)

// Activations of gated ops, by their names in the fact.
const (
	SiLU = "silu" // x * sigmoid(x)
	// GELUTanh is x * sigmoid(2*sqrt(2/pi) * (x + 0.044715 x^3)): the approximation by a tanh of Hendrycks and Gimpel,
	// "Gaussian Error Linear Units", 2016. swiglu alone has it.
	GELUTanh = "gelu_tanh"
)

// Facts distinguish one use of an op from another. A field that the op does not have
// is zero. Facts are comparable, so they can key a map, and they say all that a
// kernel may decide on: never a class name, never the values of weights.
type Facts struct {
	DType       DType `json:"dtype"`                  // storage of activations
	WeightDType DType `json:"weight_dtype,omitempty"` // storage of weights

	// rms_norm, add_rms_norm, linear, linear_w8a8, qkv, attention_pre, gate_up_swiglu, moe_experts, shared_expert_ffn,
	// linear_cross_entropy: D, size of the last axis
	Dim          int `json:"dim,omitempty"`
	Out          int `json:"out,omitempty"`          // linear, linear_w8a8: N, rows of the weight
	Intermediate int `json:"intermediate,omitempty"` // swiglu, gate_up_swiglu, moe_experts, shared_expert_ffn: I

	Eps    float64   `json:"eps,omitempty"`    // rms_norm, add_rms_norm, attention_pre
	Offset int       `json:"offset,omitempty"` // the same: 0, or 1 for weights stored around zero
	Cast   CastOrder `json:"cast,omitempty"`   // the same

	Activation string `json:"activation,omitempty"` // ops with Intermediate: SiLU, or another that swiglu may have
	Layout     Layout `json:"layout,omitempty"`     // the same
	// gate_up_swiglu: backward computes the products before swiglu again, which are not saved
	Recompute bool `json:"recompute,omitempty"`

	Pairing   Pairing `json:"pairing,omitempty"`    // rope, attention_pre
	RotaryDim int     `json:"rotary_dim,omitempty"` // the same: even, at most HeadDim
	HeadDim   int     `json:"head_dim,omitempty"`   // rope, qkv, attention, attention_pre, paged_attention, reshape_and_cache
	Heads     int     `json:"heads,omitempty"`      // rope, qkv, attention, attention_pre, paged_attention: heads of q
	KVHeads   int     `json:"kv_heads,omitempty"`   // ops with HeadDim: heads of k and v

	Experts int     `json:"experts,omitempty"` // moe_gate, moe_experts: E
	TopK    int     `json:"top_k,omitempty"`   // moe_gate, moe_experts: K, experts per token
	Routing Routing `json:"routing,omitempty"` // moe_experts

	Scoring Scoring `json:"scoring,omitempty"` // moe_gate
	// moe_gate: a bias is added to the scores for choosing, not for weighing; linear, linear_w8a8, qkv, attention_pre: one
	// is added to each product
	Bias      bool `json:"bias,omitempty"`
	Groups    int  `json:"groups,omitempty"`     // moe_gate: parts that the experts are divided into, in order; 1 for no groups
	TopGroups int  `json:"top_groups,omitempty"` // moe_gate: groups per token
	Normalize bool `json:"normalize,omitempty"`  // moe_gate: the weights of a token are divided by their sum
	// moe_gate: what the weights are multiplied by in the end, 1 for nothing; linear: what the adapter's
	// part of y is multiplied by; paged_attention: what scores are multiplied by
	Scale float64 `json:"scale,omitempty"`
	Rank  int     `json:"rank,omitempty"` // linear: rows of the adapter's A; 0 for no adapter
	// linear: bfloat16 if the factors of its matrix products are rounded to that, to nearest even; nothing
	// if they are multiplied as they are stored
	Products DType `json:"products,omitempty"`

	Scaling Scaling `json:"scaling,omitempty"` // linear_w8a8, attention_pre

	Residual bool `json:"residual,omitempty"`  // attention_pre: something is added to x before the norm
	QKNorm   bool `json:"qk_norm,omitempty"`   // attention_pre: the heads of q and k have norms
	NormBias bool `json:"norm_bias,omitempty"` // attention_pre: a bias is added to what each norm gives

	// paged_attention, reshape_and_cache: tokens that a block has room for
	BlockSize int `json:"block_size,omitempty"`
	// paged_attention: tokens that a query sees, itself among them; 0 for all before it
	Window int `json:"window,omitempty"`

	Vocab int `json:"vocab,omitempty"` // linear_cross_entropy: V, rows of the weight

	// Frozen says that the weights get no gradient: backward does not have it among its
	// outputs. For ops with weights. Adapters are never frozen.
	Frozen bool `json:"frozen,omitempty"`
}

// Validate reports whether the facts describe a use of op.
func (f Facts) Validate(op Op) error {
	c := op.contract()
	if c.valid == nil {
		return fmt.Errorf("core: unknown op %q; known: %v", op, Ops())
	}
	var bad []string
	need := func(ok bool, what string) {
		if !ok {
			bad = append(bad, what)
		}
	}
	isFloat := func(d DType) bool { return d == Float32 || d == BFloat16 || d == Float16 || d == Float64 }
	need(isFloat(f.DType), "dtype must be a floating-point type")
	if c.int8 && f.WeightDType == Int8 || c.nf4 && f.WeightDType == NF4 {
		need(f.Frozen, "weights in "+f.WeightDType.String()+" must be frozen")
	} else {
		need(!c.weights || isFloat(f.WeightDType), "weight_dtype must be a floating-point type")
	}
	c.valid(f, need)
	need(f.Products == InvalidDType || f.Products == BFloat16 && f.DType != Float64,
		"products can be bfloat16, of activations other than float64, and nothing else")
	need(f.Products == InvalidDType || c.products, "products is for ops whose matrix products may round their factors")
	need(!f.Frozen || c.weights, "frozen is for ops with weights")
	if bad != nil {
		return fmt.Errorf("core: facts of %s: %w", op, errors.New(strings.Join(bad, "; ")))
	}
	return nil
}

// String lists the facts that are set, as in "float32 dim=64 eps=1e-05".
func (f Facts) String() string {
	if f.WeightDType == f.DType {
		f.WeightDType = InvalidDType
	}
	if f.DType == Float32 { // which has no cast
		f.Cast = ""
	}
	if f.Groups == 1 {
		f.Groups, f.TopGroups = 0, 0
	}
	if f.Scale == 1 {
		f.Scale = 0
	}
	words := []string{f.DType.String()}
	for i, v := 1, reflect.ValueOf(f); i < v.NumField(); i++ {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); !v.Field(i).IsZero() {
			words = append(words, fmt.Sprintf("%s=%v", name, v.Field(i)))
		}
	}
	return strings.Join(words, " ")
}
