package core

import "slices"

// Op names a mathematical operation with one fixed meaning, forward and backward.
type Op string

// The ops of the contract. T is the number of tokens of a call; the other sizes are
// facts. docs/ops.md has the formulas; package core/reference is their plain form.
const (
	// RMSNorm is y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps).
	RMSNorm Op = "rms_norm"
	// AddRMSNorm is h = x + residual and y = RMSNorm of h; it gives both, y and h.
	AddRMSNorm Op = "add_rms_norm"
	// SwiGLU is y = silu(gate) * up.
	SwiGLU Op = "swiglu"
	// RoPE rotates the first rotary_dim elements of each head of q and k.
	RoPE Op = "rope"
	// MoEGate chooses the top-k experts of each token by its router's logits, and weighs them.
	MoEGate Op = "moe_gate"
	// MoEExperts sends each token through its top-k experts and sums their weighted outputs.
	MoEExperts Op = "moe_experts"
	// Attention is y = softmax(q k^T / sqrt(head_dim)) v over a range of keys for each query.
	Attention Op = "attention"
	// LinearCrossEntropy is -log softmax(x weight^T)[label], without the logits.
	LinearCrossEntropy Op = "linear_cross_entropy"
)

// Ops returns every op of the contract.
func Ops() []Op {
	return []Op{RMSNorm, AddRMSNorm, SwiGLU, RoPE, MoEGate, MoEExperts, Attention, LinearCrossEntropy}
}

// hasWeights reports whether the op multiplies by weights, which may be frozen.
func (o Op) hasWeights() bool {
	return o == RMSNorm || o == AddRMSNorm || o == MoEExperts || o == LinearCrossEntropy
}

// Pass is a direction of an op.
type Pass uint8

// The passes of an op.
const (
	Forward Pass = iota
	Backward
)

// String returns "forward" or "backward".
func (p Pass) String() string {
	if p == Backward {
		return "backward"
	}
	return "forward"
}

// Symbolic axes of an Arg's shape, bound by a call's tensors.
const (
	DimT = -1 // tokens of the call
	DimP = -2 // rows of the rope tables: positions 0 .. P-1
)

// Arg describes one named tensor of a call, or Count tensors of the same form.
type Arg struct {
	Name  string
	DType DType
	Shape Shape // an axis is a size, DimT or DimP
	Count int   // tensors under this name: 1, or the number of experts
	// Also, of an output of backward, names a second input of forward whose gradient it is.
	Also string
	// Saved marks an output of forward that exists only to be an input of backward, and
	// an input of backward that is an output of forward.
	Saved bool
	// Choices, of int32 ids along the last axis, is the number that they choose from: each is
	// at least 0 and below it, and none comes twice in a row.
	Choices int
	// Points, of an int32 input, says what its elements point at, and so what they may be.
	Points Points
}

// Signature lists the tensors of one pass of an op, in the order of Call.In and Call.Out.
type Signature struct {
	In, Out []Arg
}

// NewSignature returns the tensors that a pass of op takes and gives under the facts.
// Gradients of weights are float32 whatever the storage, because they are sums over
// many tokens; gradients of activations have the activations' dtype.
func NewSignature(op Op, pass Pass, f Facts) (Signature, error) {
	if err := f.Validate(op); err != nil {
		return Signature{}, err
	}
	var s Signature
	switch op {
	case RMSNorm:
		s = rmsNormSignature(pass, f)
	case AddRMSNorm:
		s = addRMSNormSignature(pass, f)
	case SwiGLU:
		s = swigluSignature(pass, f)
	case RoPE:
		s = ropeSignature(pass, f)
	case MoEGate:
		s = moeGateSignature(pass, f)
	case MoEExperts:
		s = moeSignature(pass, f)
	case Attention:
		s = attentionSignature(pass, f)
	case LinearCrossEntropy:
		s = linearCrossEntropySignature(pass, f)
	}
	for _, args := range [][]Arg{s.In, s.Out} {
		for i := range args {
			args[i].Count = max(args[i].Count, 1)
		}
	}
	return s, nil
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

// attentionSignature: keys holds the range [first, end) of keys that each query sees, as
// indices of tokens. A causal mask, packed documents, a batch of rows, padding and a
// sliding window are all ranges.
func attentionSignature(pass Pass, f Facts) Signature {
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	in := []Arg{q, k, named(k, "v"), {Name: "keys", DType: Int32, Shape: Shape{DimT, 2}, Points: Points{To: DimT, Ranges: true, Of: "not a range of the %d tokens"}}}
	y := named(q, "y")
	lse := Arg{Name: "lse", DType: Float32, Shape: Shape{DimT, f.Heads}, Saved: true}
	if pass == Forward {
		return Signature{In: in, Out: []Arg{y, lse}}
	}
	dy := named(y, "dy")
	y.Saved = true
	return Signature{In: append(append([]Arg{dy}, in...), y, lse), Out: []Arg{named(q, "dq"), named(k, "dk"), named(k, "dv")}}
}

// linearCrossEntropySignature: backward gives the losses too, because it computes them
// on its way. Who needs both passes at once runs backward alone.
func linearCrossEntropySignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Vocab, f.Dim}}
	labels := Arg{Name: "labels", DType: Int32, Shape: Shape{DimT}, Points: Points{To: f.Vocab, Some: true, Of: "the vocabulary has %d"}}
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

func named(a Arg, name string) Arg { a.Name = name; return a }

// gradients are the outputs of backward for the weights: none for frozen ones.
func gradients(f Facts, weights ...Arg) []Arg {
	if f.Frozen {
		return nil
	}
	var out []Arg
	for _, w := range weights {
		w.Name, w.DType = "d"+w.Name, Float32
		out = append(out, w)
	}
	return out
}
