package core

// Op names a mathematical operation with one fixed meaning, forward and backward.
type Op string

// contract is what the host, its kernels and the reference agree on about an op. T is the
// number of tokens of a call; the other sizes are facts. Each op has its own in its folder of
// internal/ops, of which contracts.go is made. docs/ops.md has the formulas; package core/reference is their plain form.
type contract struct {
	op      Op
	weights bool // it multiplies by weights, which may be frozen
	int8    bool // frozen ones may be int8
	nf4     bool // and NF4
	// it is for inference and has no backward pass; signature gives nothing for that
	forwardOnly bool
	// the factors of its products may be rounded, where the fact products says so
	products bool
	// valid says what the facts need beside their dtypes.
	valid func(f Facts, need func(ok bool, what string))
	// check, of an op whose indices are tied to each other, verifies what Points cannot say of a call whose tensors
	// are there; nil for none. Its errors say what is wrong.
	check func(c *Call) error
	// signature needs facts that are valid; a Count of 0 is 1.
	signature func(pass Pass, f Facts) Signature
	// work is that of NewWork, positions being tokens at most.
	work func(pass Pass, f Facts, tokens, positions float64) Work
	// workOf, of an op whose work depends on its input, is that of one call.
	workOf func(c *Call) Work
}

// Ops returns every op of the contract.
func Ops() []Op {
	ops := make([]Op, len(contracts))
	for i, c := range contracts {
		ops[i] = c.op
	}
	return ops
}

// contract returns that of the op, an empty one if there is no such op.
func (o Op) contract() contract {
	for _, c := range contracts {
		if c.op == o {
			return c
		}
	}
	return contract{}
}

// HasWeights reports whether the op multiplies by weights, which have a dtype of their own
// and may be frozen.
func (o Op) HasWeights() bool { return o.contract().weights }

// Passes returns those that the op has: forward, and backward unless it is for inference alone.
func (o Op) Passes() []Pass {
	if o.contract().forwardOnly {
		return []Pass{Forward}
	}
	return []Pass{Forward, Backward}
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
	DimP = -2 // rows of the rope tables: positions 0 .. P-1; blocks of a cache
	DimB = -3 // sequences of the call, as many as tokens at most
	DimM = -4 // places in the table of a sequence's blocks

	dims = 4 // how many there are
)

// Arg describes one named tensor of a call, or Count tensors of the same form.
type Arg struct {
	Name  string
	DType DType
	Shape Shape // an axis is a size, or a symbolic one
	Count int   // tensors under this name: 1, or the number of experts
	// Also, of an output of backward, names a second input of forward whose gradient it is.
	Also string
	// Saved marks an output of forward that exists only to be an input of backward, and
	// an input of backward that is an output of forward.
	Saved bool
	// Keeps marks an output of which the kernel writes only what the inputs say, and leaves the rest as it is: there
	// is something in it before the call. A call writes the same whatever that is, and so can be run again.
	Keeps bool
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
// many tokens; gradients of activations have the activations' dtype. A pass that the op does
// not have takes and gives nothing.
func NewSignature(op Op, pass Pass, f Facts) (Signature, error) {
	if err := f.Validate(op); err != nil {
		return Signature{}, err
	}
	s := op.contract().signature(pass, f)
	for _, args := range [][]Arg{s.In, s.Out} {
		for i := range args {
			args[i].Count = max(args[i].Count, 1)
		}
	}
	return s, nil
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
