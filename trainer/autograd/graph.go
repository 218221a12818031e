package autograd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	// gorgonia panics at start-up on a current Go unless this module is recent; naming
	// it here keeps the version in go.mod.
	_ "go4.org/unsafe/assume-no-moving-gc"
	"gorgonia.org/gorgonia"

	"github.com/seed98097648/tune/core"
)

// Spec is the form of a value.
type Spec struct {
	DType core.DType
	Shape core.Shape
}

func (s Spec) bytes() int { return s.Shape.Elems() * s.DType.Size() }

// Float32 returns the spec of a float32 value.
func Float32(shape ...int) Spec { return Spec{core.Float32, shape} }

// Int32 returns the spec of an int32 value; no gradient passes through it.
func Int32(shape ...int) Spec { return Spec{core.Int32, shape} }

// Op is one operation: what it gives, how to compute it, and its gradient.
type Op struct {
	Name    string      // the kind, such as "linear"; the key of profiles
	Kernel  string      // the fused kernel behind it, empty for a plain operation
	Outputs []Spec      // output 0 is the value; see Diff for the others
	Diff    int         // how many leading outputs a gradient passes through; 0 means 1
	Memory  core.Memory // where outputs and gradients lie, but for integers; nil for the graph's memory
	InPlace bool        // output 0 may overwrite input 0 when nothing needs it afterwards
	Work    core.Work   // of the forward; without Bytes, each input and output counts once

	// Again computes outputs a second time in a cheaper way than Forward; see Checkpoint.
	Again *Again

	// Forward writes every element of every output.
	Forward func(ctx context.Context, in, out []core.Tensor) error
	// Step is for an operation of which Forward is one call of a kernel and nothing else, so that others can follow it
	// without the host between them; see core.Series. It returns what prepares a call of its own.
	Step func() func(in, out []core.Tensor) core.Step
	// Backward is nil when no gradient passes through.
	Backward *Backward
}

// Again computes some outputs of an operation from others and from inputs, when a region
// has values computed again for the backward pass. The other outputs are then kept, and
// the inputs that it does not read need not be.
type Again struct {
	Inputs  []int                                                  // forward inputs that Run reads
	Outputs []int                                                  // forward outputs that Run reads
	Writes  []int                                                  // forward outputs that Run writes
	Run     func(ctx context.Context, in, out []core.Tensor) error // the inputs, then the outputs
}

// Backward computes all gradients of an operation in one call.
type Backward struct {
	Inputs  []int     // forward inputs that Run reads
	Outputs []int     // forward outputs that Run reads
	Wrt     []int     // inputs that Run gives the gradient of
	Through []int     // inputs whose gradient is that of output 0, as it is
	Shared  [][2]int  // pairs of inputs: the gradient of the first is that of the second, which is in Wrt
	All     bool      // Run always gets every gradient in Wrt to write, needed or not
	Zeros   bool      // Run always gets the gradient of every differentiable output, zeros where none reached it
	Scratch []Spec    // memory that Run may use while it runs
	Work    core.Work // of Run; without Bytes, each tensor of Grads but Scratch counts once
	// Each is what every gradient in Wrt adds to Work where it is needed; nil if Work has
	// it all.
	Each []core.Work
	// InPlace says that the gradient of input 0, the first in Wrt, may overwrite input 0, which Run reads, when nothing
	// needs that afterwards.
	InPlace bool
	// Ahead lists inputs whose gradients Forward computes itself: when the graph has a
	// backward pass, its out has one more tensor for each of them. That is for a loss
	// alone, whose own gradient is known beforehand to be 1; Compile refuses to
	// differentiate the operation as a part of anything else. Run is then nil, and Work is
	// that of Forward with these gradients.
	Ahead []int
	// Accumulate lists inputs whose gradient Run can add to what is there, when Grads.Add
	// tells it to: gradients that meet at one value then need neither a buffer each nor
	// an instruction that adds them.
	Accumulate []int
	// AddsWhole lists inputs whose gradient Run can add to what is there, when Grads.Add
	// tells it to, by one addition once it is complete; see Graph.Accumulate.
	AddsWhole []int
	// Parts is another way to the gradient of one input, a parameter's, of which Run then gives the others; nil without.
	Parts *Parts
	// Looked says that the gradient of an input, a matrix that rows were looked up in, has at each of these rows the sum of
	// output 0's gradients for it, in their order, and zeros elsewhere; nil for another. Run gives it all the same.
	Looked *Looked
	// Run writes every element of every gradient in DIn that is present, or adds to it.
	// It may be nil when Wrt is empty.
	Run func(ctx context.Context, g *Grads) error
	// Step is for Run what Op.Step is for Forward.
	Step func() func(g *Grads) core.Step
}

// Parts computes some rows of a gradient at a time, with the bits that Run would give them; see Graph.Update.
type Parts struct {
	Of   int       // the input whose gradient it is
	Work core.Work // of all of them
	// Run writes rows [from, to), along the first axis, to dst.
	Run func(g *Grads, from, to int, dst []float32)
}

// Looked are the rows of an input that were looked up.
type Looked struct {
	Of, Rows int // inputs: the matrix, and the rows' numbers
	Skip     int // a number that nothing is looked up for; negative for none
}

// Grads are the tensors of one backward call, under the indices of the forward.
type Grads struct {
	In   []core.Tensor // those listed in Backward.Inputs
	Out  []core.Tensor // those listed in Backward.Outputs
	DOut []core.Tensor // the gradient of each differentiable output; absent if none reached it, but see Backward.Zeros
	DIn  []core.Tensor // to be written; absent for inputs that need no gradient
	Add  []bool        // of each DIn: add to it, do not overwrite it
	// Apart asks for gradients in AddsWhole to be computed elsewhere before they are added; see
	// Program.Apart.
	Apart bool

	Scratch []core.Tensor // those of Backward.Scratch
}

// Graph is a computation under construction. It is not safe for concurrent use.
type Graph struct {
	expr   *gorgonia.ExprGraph
	mem    core.Memory
	tape   []*instr
	leaves int                      // so far
	bySym  map[*gorgonia.Node]*slot // the buffer behind each node that is a gradient
	added  map[*gorgonia.Node]bool  // gorgonia's additions seen so far
	path   []string
	region *region     // the innermost of Checkpoint
	owned  []block     // memory of leaves that belong to the graph
	sums   core.Memory // of gradients summed over several runs; nil for those of each run
	update *Updates    // nil for gradients that stay
	within *Program    // see Within; nil for memory of its own
	one    *slot       // the gradient of the loss
	err    error
}

// New returns an empty graph whose buffers lie in mem.
func New(mem core.Memory) *Graph {
	return &Graph{
		expr:  gorgonia.NewGraph(),
		mem:   mem,
		bySym: map[*gorgonia.Node]*slot{},
		added: map[*gorgonia.Node]bool{},
	}
}

// Value is a node of the graph: the output of an operation, a parameter or an input.
type Value struct {
	g     *Graph
	node  *gorgonia.Node
	slot  *slot
	shape core.Shape
	diff  bool // a gradient passes through it
}

// Shape returns the value's shape.
func (v *Value) Shape() core.Shape { return v.shape }

// Reshape views the value under another shape of the same size.
func (v *Value) Reshape(shape ...int) *Value {
	if core.Shape(shape).Elems() != v.shape.Elems() {
		v.g.fail(fmt.Errorf("autograd: cannot view %v as %v", v.shape, shape))
		return v
	}
	w := *v
	w.shape = slices.Clone(shape)
	return &w
}

// Keep makes the value's buffer outlive the run, so that Program.Tensor can read it.
func (v *Value) Keep() *Value { v.slot.keep = true; return v }

// Named has the leaf's content named by the number at content, as it is whenever an operation reads
// the leaf: see core.Tensor.Content. It returns the leaf.
func (v *Value) Named(content *uint64) *Value { v.slot.name = content; return v }

// Param adds a trainable leaf. The graph reads t's memory at every run.
func (g *Graph) Param(name string, t core.Tensor) *Value { return g.leaf(name, t, true) }

// Input adds a leaf that needs no gradient. The graph reads t's memory at every run.
func (g *Graph) Input(name string, t core.Tensor) *Value { return g.leaf(name, t, false) }

func (g *Graph) leaf(name string, t core.Tensor, diff bool) *Value {
	node := gorgonia.NewVector(g.expr, gorgonia.Float32, gorgonia.WithShape(nominal(t.Shape)),
		gorgonia.WithName(fmt.Sprintf("%s#%d", name, g.leaves)))
	g.leaves++
	s := &slot{spec: Spec{t.DType, t.Shape}, tensor: t, leaf: true}
	return &Value{g: g, node: node, slot: s, shape: t.Shape, diff: diff}
}

// Alloc returns memory for a leaf that belongs to the graph, such as a table; it is
// given back when the program is closed.
func (g *Graph) Alloc(n int) ([]byte, error) {
	b, err := g.mem.Alloc(n)
	if err == nil {
		g.owned = append(g.owned, block{g.mem, b})
	}
	return b, err
}

// Release gives back what Alloc has handed out, for a graph that will not be compiled.
func (g *Graph) Release() {
	release(g.owned)
	g.owned = nil
}

// Enter adds an element to the path under which operations are recorded, until the
// function that it returns is called.
func (g *Graph) Enter(name string) func() {
	g.path = append(g.path, name)
	return func() { g.path = g.path[:len(g.path)-1] }
}

// Path returns the current path, joined by dots.
func (g *Graph) Path() string { return strings.Join(g.path, ".") }

// Apply adds an operation and returns its value.
func (g *Graph) Apply(op Op, in ...*Value) *Value { return g.ApplyAll(op, in...)[0] }

// ApplyAll adds an operation and returns all its outputs. Errors are kept and
// returned by Compile.
func (g *Graph) ApplyAll(op Op, in ...*Value) []*Value {
	s := &symbol{g: g, op: op, path: g.Path(), region: g.region, kind: forward, index: len(g.tape),
		wrt: make([]bool, len(in))}
	op.Diff = max(op.Diff, 1)
	s.op.Diff = op.Diff
	children := make(gorgonia.Nodes, len(in))
	for i, v := range in {
		children[i] = v.node
		s.in = append(s.in, ref{v.slot, v.shape})
		s.wrt[i] = v.diff && op.Backward != nil &&
			(slices.Contains(op.Backward.Wrt, i) || slices.Contains(op.Backward.Through, i) ||
				slices.Contains(op.Backward.Ahead, i) ||
				slices.ContainsFunc(op.Backward.Shared, func(pair [2]int) bool { return pair[0] == i }))
		s.diff = s.diff || s.wrt[i]
	}
	for _, spec := range op.Outputs {
		mem := op.Memory
		if spec.DType == core.Int32 {
			mem = nil // what others use as indices lies where no plugin can change it
		}
		s.out = append(s.out, g.newSlot(spec, mem))
	}
	node := g.add(s, children...)
	values := make([]*Value, len(op.Outputs))
	if node == nil {
		for i, spec := range op.Outputs {
			values[i] = &Value{g: g, slot: s.out[i], shape: spec.Shape}
		}
		return values
	}
	s.instr = newForward(s)
	g.tape = append(g.tape, s.instr)
	for i, spec := range op.Outputs {
		n := node
		if i > 0 || op.Diff > 1 {
			n = g.pick(node, i, s.out[i])
		}
		values[i] = &Value{g: g, node: n, slot: s.out[i], shape: spec.Shape, diff: s.diff && i < op.Diff}
	}
	return values
}

func (g *Graph) newSlot(spec Spec, mem core.Memory) *slot {
	if mem == nil {
		mem = g.mem
	}
	return &slot{spec: spec, mem: mem}
}

// fail keeps the first error; Compile returns it.
func (g *Graph) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// nominal is the length of the vector that stands for a value in gorgonia's graph,
// where shapes are only compared. It avoids lengths that gorgonia takes for scalars.
func nominal(s core.Shape) int { return max(s.Elems(), 2) }
