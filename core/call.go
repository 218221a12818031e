package core

import (
	"fmt"
	"slices"
	"strings"
)

// Call is one invocation of a kernel: a pass of an op on named tensors. A caller may
// keep a Call and run it many times; a kernel must not keep it.
type Call struct {
	Op    Op
	Pass  Pass
	Facts Facts
	Sig   Signature
	In    []Tensor // Sig.In, arguments with a Count expanded in place; read-only
	Out   []Tensor // Sig.Out, likewise; the kernel writes every element
	// Add says of each tensor of Out that the kernel is to add to what is there; nil for none.
	// Each element becomes that, plus what the call would have written without: one addition
	// in float32 of a sum that is finished, so that whoever adds, the bits are the same. Only
	// outputs that are named in the kernel's Info.Adds can be added to. After an error what
	// is there is undefined.
	Add  []bool
	Site string // where in the model, for messages; may be empty
}

// NewCall returns a call without tensors; fill In and Out, or use Set.
func NewCall(op Op, pass Pass, f Facts) (*Call, error) {
	sig, err := NewSignature(op, pass, f)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(op.Passes(), pass) {
		return nil, fmt.Errorf("core: %s has no %s pass: it is for inference", op, pass)
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
	if slices.ContainsFunc(c.Sig.In, func(a Arg) bool { return a.Name == name }) {
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

// Axes returns the sizes of the symbolic axes of an op's shapes, which with the facts say how large everything in a call
// is: tokens, positions or blocks, sequences, and places in their tables; a negative number for each that its inputs do
// not have. The call has passed Check.
func (c *Call) Axes() [dims]int {
	bound := [dims]int{unbound, unbound, unbound, unbound}
	at := 0
	for _, a := range c.Sig.In {
		bindShape(a.Shape, c.In[at].Shape, &bound)
		at += a.Count
	}
	return bound
}

// Check verifies that every tensor is present with the dtype and shape of the
// signature, that the symbolic axes agree, and that indices point at something that is
// there (see Points). Errors wrap ErrBadCall. Run calls it before every kernel.
func (c *Call) Check() error {
	if len(c.Add) > 0 && len(c.Add) != len(c.Out) {
		return fmt.Errorf("%w: %s %s says of %d outputs whether to add, and has %d", ErrBadCall, c.Op, c.Pass, len(c.Add),
			len(c.Out))
	}
	if len(c.In) != count(c.Sig.In) || len(c.Out) != count(c.Sig.Out) {
		return fmt.Errorf("%w: %s %s takes %d tensors and gives %d, got %d and %d", ErrBadCall,
			c.Op, c.Pass, count(c.Sig.In), count(c.Sig.Out), len(c.In), len(c.Out))
	}
	bound := [dims]int{unbound, unbound, unbound, unbound} // values of the symbolic axes
	if err := checkArgs(c.Sig.In, c.In, &bound); err != nil {
		return fmt.Errorf("%w: %s %s: input %w", ErrBadCall, c.Op, c.Pass, err)
	}
	if err := checkArgs(c.Sig.Out, c.Out, &bound); err != nil {
		return fmt.Errorf("%w: %s %s: output %w", ErrBadCall, c.Op, c.Pass, err)
	}
	at := 0
	for _, a := range c.Sig.In {
		if err := a.Points.check(a.Name, c.In[at], bound); err != nil {
			return fmt.Errorf("%w: %w", ErrBadCall, err)
		}
		at += a.Count
	}
	if check := c.Op.contract().check; check != nil {
		if err := check(c); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrBadCall, c.Op, err)
		}
	}
	return nil
}

// Keeps reports whether there is something in output i before the call that it needs or leaves there; see Call.Add
// and Arg.Keeps.
func (c *Call) Keeps(i int) bool {
	if len(c.Add) > 0 && c.Add[i] {
		return true
	}
	for _, a := range c.Sig.Out {
		if i < a.Count {
			return a.Keeps
		}
		i -= a.Count
	}
	return false
}

func checkArgs(args []Arg, tensors []Tensor, bound *[dims]int) error {
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
func bindShape(want, got Shape, bound *[dims]int) bool {
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

// Bind returns the shape with its symbolic axes replaced. There are as many sequences as tokens, and as many places in
// a table as there are blocks: the most that a call can use.
func (s Shape) Bind(tokens, positions int) Shape {
	out := slices.Clone(s)
	for i, d := range out {
		switch d {
		case DimT, DimB:
			out[i] = tokens
		case DimP, DimM:
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
		case DimB:
			names[i] = "B"
		case DimM:
			names[i] = "M"
		default:
			names[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}

func pick(c *Call, args []Arg, tensors []Tensor, name string) []Tensor {
	for _, a := range args {
		if a.Name == name {
			return tensors[:a.Count]
		}
		tensors = tensors[a.Count:]
	}
	panic(fmt.Sprintf("core: %s %s has no tensor %q", c.Op, c.Pass, name))
}

func count(args []Arg) int {
	n := 0
	for _, a := range args {
		n += a.Count
	}
	return n
}
