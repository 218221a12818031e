package core

import (
	"fmt"
	"slices"
	"strings"
)

// Op names a mathematical operation with one fixed meaning, forward and backward.
type Op string

// The ops of the contract. T is the number of tokens of a call; the other sizes are
// facts. docs/ops.md has the formulas; package core/reference is their plain form.
const (
	// RMSNorm is y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps).
	RMSNorm Op = "rms_norm"
	// SwiGLU is y = silu(gate) * up.
	SwiGLU Op = "swiglu"
	// RoPE rotates the first rotary_dim elements of each head of q and k.
	RoPE Op = "rope"
	// MoEExperts sends each token through its top-k experts and sums their weighted outputs.
	MoEExperts Op = "moe_experts"
)

// Ops returns every op of the contract.
func Ops() []Op { return []Op{RMSNorm, SwiGLU, RoPE, MoEExperts} }

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
	Saved bool  // an output of forward that exists only to be an input of backward
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
	case SwiGLU:
		s = swigluSignature(pass, f)
	case RoPE:
		s = ropeSignature(pass, f)
	case MoEExperts:
		s = moeSignature(pass, f)
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
		Out: []Arg{named(x, "dx"), gradient(weight)},
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
		{Name: "positions", DType: Int32, Shape: Shape{DimT}},
	}
	if pass == Forward {
		return Signature{In: append([]Arg{q, k}, tables...), Out: []Arg{named(q, "q_out"), named(k, "k_out")}}
	}
	return Signature{
		In:  append([]Arg{named(q, "dq_out"), named(k, "dk_out")}, tables...),
		Out: []Arg{named(q, "dq"), named(k, "dk")},
	}
}

func moeSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	ids := Arg{Name: "expert_ids", DType: Int32, Shape: Shape{DimT, f.TopK}}
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
	out := []Arg{named(x, "dx"), named(probs, "drouting_weights")}
	for _, w := range weights {
		out = append(out, gradient(w))
	}
	return Signature{In: append(append([]Arg{named(x, "dy")}, in...), saved), Out: out}
}

func named(a Arg, name string) Arg { a.Name = name; return a }

func gradient(weight Arg) Arg {
	weight.Name, weight.DType = "d"+weight.Name, Float32
	return weight
}

// Call is one invocation of a kernel: a pass of an op on named tensors. A caller may
// keep a Call and run it many times; a kernel must not keep it.
type Call struct {
	Op    Op
	Pass  Pass
	Facts Facts
	Sig   Signature
	In    []Tensor // Sig.In, arguments with a Count expanded in place; read-only
	Out   []Tensor // Sig.Out, likewise; the kernel writes every element
	Site  string   // where in the model, for messages; may be empty
}

// NewCall returns a call without tensors; fill In and Out, or use Set.
func NewCall(op Op, pass Pass, f Facts) (*Call, error) {
	sig, err := NewSignature(op, pass, f)
	if err != nil {
		return nil, err
	}
	return &Call{Op: op, Pass: pass, Facts: f, Sig: sig,
		In: make([]Tensor, count(sig.In)), Out: make([]Tensor, count(sig.Out))}, nil
}

// Input returns the input of that name. It panics on a name that the op does not have.
func (c *Call) Input(name string) Tensor { return c.Inputs(name)[0] }

// Output returns the output of that name. It panics on a name that the op does not have.
func (c *Call) Output(name string) Tensor { return c.Outputs(name)[0] }

// Inputs returns the tensors of an input with a Count, such as one per expert.
func (c *Call) Inputs(name string) []Tensor { return pick(c, c.Sig.In, c.In, name) }

// Outputs returns the tensors of an output with a Count.
func (c *Call) Outputs(name string) []Tensor { return pick(c, c.Sig.Out, c.Out, name) }

// Set gives the input or output of that name its tensors. It panics on a name that the
// op does not have, and on another number of tensors than the argument's Count.
func (c *Call) Set(name string, t ...Tensor) {
	args, tensors := c.Sig.Out, c.Out
	if argOffset(c.Sig.In, name) >= 0 {
		args, tensors = c.Sig.In, c.In
	}
	dst := pick(c, args, tensors, name)
	if len(t) != len(dst) {
		panic(fmt.Sprintf("core: %s %s takes %d tensors as %q, got %d", c.Op, c.Pass, len(dst), name, len(t)))
	}
	copy(dst, t)
}

// Tokens returns T, the number of tokens, from the first input.
func (c *Call) Tokens() int { return c.In[0].Shape[0] }

// Check verifies that every tensor is present with the dtype and shape of the
// signature, and that the symbolic axes agree. Errors wrap ErrBadCall.
func (c *Call) Check() error {
	if len(c.In) != count(c.Sig.In) || len(c.Out) != count(c.Sig.Out) {
		return fmt.Errorf("%w: %s %s takes %d tensors and gives %d, got %d and %d", ErrBadCall,
			c.Op, c.Pass, count(c.Sig.In), count(c.Sig.Out), len(c.In), len(c.Out))
	}
	bound := [2]int{unbound, unbound} // values of DimT and DimP
	if err := checkArgs(c.Sig.In, c.In, &bound); err != nil {
		return fmt.Errorf("%w: %s %s: input %w", ErrBadCall, c.Op, c.Pass, err)
	}
	if err := checkArgs(c.Sig.Out, c.Out, &bound); err != nil {
		return fmt.Errorf("%w: %s %s: output %w", ErrBadCall, c.Op, c.Pass, err)
	}
	return nil
}

func checkArgs(args []Arg, tensors []Tensor, bound *[2]int) error {
	for _, a := range args {
		for i, t := range tensors[:a.Count] {
			if err := t.Valid(); err != nil {
				return fmt.Errorf("%s: %w", a.label(i), err)
			}
			if t.DType != a.DType || !bindShape(a.Shape, t.Shape, bound) {
				return fmt.Errorf("%s is %s%v, want %s%s", a.label(i), t.DType, t.Shape, a.DType, symbolic(a.Shape))
			}
		}
		tensors = tensors[a.Count:]
	}
	return nil
}

// label names tensor i of the argument.
func (a Arg) label(i int) string {
	if a.Count == 1 {
		return a.Name
	}
	return fmt.Sprintf("%s[%d]", a.Name, i)
}

// unbound marks a symbolic axis that no tensor has bound yet; 0 is a size.
const unbound = -1

// bindShape matches a shape with its pattern and binds symbolic axes on first sight.
func bindShape(want, got Shape, bound *[2]int) bool {
	if len(want) != len(got) {
		return false
	}
	for i, d := range want {
		if d < 0 {
			if bound[-d-1] == unbound {
				bound[-d-1] = got[i]
			}
			d = bound[-d-1]
		}
		if d != got[i] {
			return false
		}
	}
	return true
}

// Bind returns the shape with its symbolic axes replaced.
func (s Shape) Bind(tokens, positions int) Shape {
	out := slices.Clone(s)
	for i, d := range out {
		switch d {
		case DimT:
			out[i] = tokens
		case DimP:
			out[i] = positions
		}
	}
	return out
}

func symbolic(s Shape) string {
	names := make([]string, len(s))
	for i, d := range s {
		switch d {
		case DimT:
			names[i] = "T"
		case DimP:
			names[i] = "P"
		default:
			names[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}

func pick(c *Call, args []Arg, tensors []Tensor, name string) []Tensor {
	i := argOffset(args, name)
	if i < 0 {
		panic(fmt.Sprintf("core: %s %s has no tensor %q", c.Op, c.Pass, name))
	}
	for _, a := range args {
		if a.Name == name {
			return tensors[i : i+a.Count]
		}
	}
	return nil
}

func argOffset(args []Arg, name string) int {
	n := 0
	for _, a := range args {
		if a.Name == name {
			return n
		}
		n += a.Count
	}
	return -1
}

func count(args []Arg) int {
	n := 0
	for _, a := range args {
		n += a.Count
	}
	return n
}
