package autograd

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed98097648/tune/core"
)

// symbol stands for an operation in gorgonia's graph. It exists for gorgonia.Grad and
// is never run.
type symbol struct {
	g     *Graph
	kind  kind
	index int // unique for forward and backward; the output's index for pick and place
	shape core.Shape
	types []hm.Type // of the children, then of the result
	name  string

	// forward only
	op     Op
	path   string
	region *region
	in     []ref
	out    []*slot
	wrt    []bool // inputs that get a gradient
	diff   bool   // any of wrt
	instr  *instr // that computes it
}

type kind string

const (
	forward  kind = "forward"
	backward kind = "backward"
	pickOut  kind = "pick"    // one output of a forward or backward operation
	placeIn  kind = "place"   // the gradient of one output, on its way to the operation
	through  kind = "through" // a gradient that an operation passes on as it is
	ahead    kind = "ahead"   // a gradient that an operation has computed in its forward pass
)

var vector hm.Type = gorgonia.TensorType{Dims: 1, Of: tensor.Float32}

// add puts the symbol into the graph above its children.
func (g *Graph) add(s *symbol, children ...*gorgonia.Node) *gorgonia.Node {
	if g.err != nil {
		return nil
	}
	for _, c := range children {
		s.types = append(s.types, c.Type())
	}
	result := vector
	if s.kind == forward && len(s.op.Outputs[0].Shape) == 0 {
		result = tensor.Float32
	}
	s.types = append(s.types, result)
	if s.shape == nil && s.kind == forward {
		s.shape = s.op.Outputs[0].Shape
	}
	// The name makes the hash, and gorgonia merges nodes of equal hash: it must be unique.
	s.name = fmt.Sprintf("%s %s %d of %d", s.kind, s.op.Name, s.index, children0(children))
	n, err := gorgonia.ApplyOp(s, children...)
	if err != nil {
		g.fail(fmt.Errorf("autograd: %s at %s: %w", s.op.Name, s.path, err))
		return nil
	}
	return n
}

// pick adds the node of one output of an operation.
func (g *Graph) pick(of *gorgonia.Node, i int, out *slot) *gorgonia.Node {
	n := g.add(&symbol{g: g, kind: pickOut, index: i, shape: out.spec.Shape}, of)
	if n != nil {
		g.bySym[n] = out
	}
	return n
}

// Arity implements gorgonia.Op.
func (s *symbol) Arity() int { return len(s.types) - 1 }

// Type implements gorgonia.Op.
func (s *symbol) Type() hm.Type { return hm.NewFnType(s.types...) }

// InferShape implements gorgonia.Op.
func (s *symbol) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	if s.types[len(s.types)-1] != vector {
		return tensor.ScalarShape(), nil
	}
	return tensor.Shape{nominal(s.shape)}, nil
}

// Do implements gorgonia.Op; a Program runs the tape instead.
func (s *symbol) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, errors.New("autograd: symbols are run by a Program, not by a gorgonia machine")
}

// ReturnsPtr implements gorgonia.Op.
func (s *symbol) ReturnsPtr() bool { return true }

// CallsExtern implements gorgonia.Op.
func (s *symbol) CallsExtern() bool { return false }

// OverwritesInput implements gorgonia.Op.
func (s *symbol) OverwritesInput() int { return -1 }

// WriteHash implements gorgonia.Op.
func (s *symbol) WriteHash(h hash.Hash) { fmt.Fprint(h, s.name) }

// Hashcode implements gorgonia.Op.
func (s *symbol) Hashcode() uint32 {
	h := fnv.New32a()
	s.WriteHash(h)
	return h.Sum32()
}

// String implements gorgonia.Op.
func (s *symbol) String() string { return s.name }

// DiffWRT implements gorgonia.SDOp.
func (s *symbol) DiffWRT(n int) []bool {
	switch s.kind {
	case forward:
		return s.wrt
	case pickOut:
		return []bool{true}
	}
	return make([]bool, n)
}

// SymDiff implements gorgonia.SDOp: it records the backward instruction of an
// operation and returns the nodes of its gradients.
func (s *symbol) SymDiff(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if s.kind == pickOut {
		// The gradient of one output: it keeps its index until it reaches the operation.
		parent := inputs[0].Op().(*symbol)
		n := s.g.add(&symbol{g: s.g, kind: placeIn, index: s.index, shape: parent.shape}, grad)
		return gorgonia.Nodes{n}, s.g.err
	}
	return s.differentiate(inputs, output, grad)
}

// differentiate records the backward instruction.
func (s *symbol) differentiate(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	g, b := s.g, s.op.Backward
	dout, err := s.incoming(grad)
	if err != nil {
		return nil, err
	}
	result := make(gorgonia.Nodes, len(inputs))
	for _, i := range b.Through {
		if !s.wrt[i] {
			continue
		}
		if result[i] = g.add(&symbol{g: g, kind: through, index: i, op: Op{Name: s.name}, shape: s.shape}, output,
			grad); result[i] != nil {
			g.bySym[result[i]] = dout[0].slot
		}
	}
	if len(b.Ahead) > 0 {
		return result, s.ahead(result, dout[0].slot, output, grad)
	}
	if b.Run == nil {
		return result, g.err
	}
	if b.Zeros {
		s.zeros(dout)
	}
	node := g.add(&symbol{g: g, kind: backward, index: s.index, op: Op{Name: s.op.Name}, path: s.path, shape: s.shape},
		output, grad)
	din, work := make([]ref, len(s.in)), b.Work
	for k, i := range b.Wrt {
		if node == nil || !s.wrt[i] && !b.All {
			continue
		}
		if b.Each != nil {
			work = work.Plus(b.Each[k])
		}
		d := g.newSlot(Spec{core.Float32, s.in[i].shape}, s.op.Memory)
		din[i] = ref{d, d.spec.Shape}
		if s.wrt[i] {
			result[i] = g.pick(node, i, d)
		}
	}
	for _, pair := range b.Shared {
		if i, of := pair[0], pair[1]; node != nil && s.wrt[i] {
			if din[of].slot == nil {
				d := g.newSlot(Spec{core.Float32, s.in[of].shape}, s.op.Memory)
				din[of] = ref{d, d.spec.Shape}
			}
			result[i] = g.pick(node, i, din[of].slot)
		}
	}
	g.tape = append(g.tape, newBackward(s, dout, din, work))
	return result, g.err
}

// zeros records gradients of zero for the outputs that none has reached.
func (s *symbol) zeros(dout []ref) {
	for i, d := range dout {
		if d.slot != nil {
			continue
		}
		z := s.g.newSlot(Spec{core.Float32, s.op.Outputs[i].Shape}, nil)
		dout[i] = ref{z, z.spec.Shape}
		s.g.tape = append(s.g.tape, &instr{op: "zero", path: s.path, pass: core.Backward, out: refs(z),
			bind: func(in *instr) func(context.Context) error {
				x := in.out[0].tensor().Float32s()
				return func(context.Context) error { clear(x); return nil }
			}})
	}
}

// ahead makes the gradients outputs of the operation's forward instruction, given that
// its own gradient is dout.
func (s *symbol) ahead(result gorgonia.Nodes, dout *slot, output, grad *gorgonia.Node) error {
	g := s.g
	if dout != g.one {
		return fmt.Errorf("autograd: %s at %s has its gradients computed ahead, as the loss itself; it cannot be a part "+
			"of another loss", s.op.Name, s.path)
	}
	s.instr.work = s.op.Backward.Work
	for _, i := range s.op.Backward.Ahead {
		d := g.newSlot(Spec{core.Float32, s.in[i].shape}, s.op.Memory)
		s.instr.out = append(s.instr.out, ref{d, d.spec.Shape})
		if !s.wrt[i] {
			continue
		}
		if result[i] = g.add(&symbol{g: g, kind: ahead, index: i, op: Op{Name: s.name}, shape: s.in[i].shape}, output,
			grad); result[i] != nil {
			g.bySym[result[i]] = d
		}
	}
	return g.err
}

// incoming finds the gradient of each differentiable output in the sum that gorgonia
// has built.
func (s *symbol) incoming(grad *gorgonia.Node) ([]ref, error) {
	terms := make([][]*slot, s.op.Diff)
	for _, n := range s.g.addends(grad, nil) {
		i, of := 0, gorgonia.Nodes{n}
		if p, ok := n.Op().(*symbol); ok && p.kind == placeIn {
			i, of = p.index, s.g.addends(childrenOf(n)[0], nil)
		}
		for _, m := range of {
			t, err := s.g.resolve(m)
			if err != nil {
				return nil, err
			}
			terms[i] = append(terms[i], t)
		}
	}
	dout := make([]ref, s.op.Diff)
	for i, t := range terms {
		if t != nil {
			dout[i] = ref{s.g.sum(t, s.path), s.op.Outputs[i].Shape}
		}
	}
	return dout, nil
}

// addends flattens gorgonia's tree of binary additions, left to right. Every addition
// belongs to one gradient; gorgonia merges nodes by a 32-bit hash, so meeting one twice
// means that it took two different sums for one.
func (g *Graph) addends(n *gorgonia.Node, list gorgonia.Nodes) gorgonia.Nodes {
	if !isAdd(n) {
		return append(list, n)
	}
	if g.added[n] {
		g.fail(errors.New("autograd: gorgonia merged two different sums of gradients (a hash collision); rename a parameter"))
	}
	g.added[n] = true
	for _, c := range childrenOf(n) {
		list = g.addends(c, list)
	}
	return list
}

// isAdd recognises the addition by which gorgonia joins gradients at a fan-out.
func isAdd(n *gorgonia.Node) bool {
	op := n.Op()
	if op == nil {
		return false
	}
	_, ours := op.(*symbol)
	return !ours && op.Arity() == 2 && strings.HasPrefix(op.String(), "+")
}

func childrenOf(n *gorgonia.Node) gorgonia.Nodes {
	var out gorgonia.Nodes
	for it := n.Graph().From(n.ID()); it.Next(); {
		out = append(out, it.Node().(*gorgonia.Node))
	}
	return out
}

func children0(children gorgonia.Nodes) int64 {
	if len(children) == 0 {
		return -1
	}
	return children[0].ID()
}

// resolve returns the buffer behind a node that is neither a sum nor a place.
func (g *Graph) resolve(n *gorgonia.Node) (*slot, error) {
	if s, ok := g.bySym[n]; ok {
		return s, nil
	}
	if n.IsScalar() && n.Op() != nil && n.Op().Arity() == 0 { // the 1 that Grad starts from
		g.one = &slot{spec: Float32(), tensor: core.FromFloat32([]float32{1}), leaf: true}
		g.bySym[n] = g.one
		return g.one, nil
	}
	return nil, fmt.Errorf("autograd: gorgonia made a node that is neither ours nor a sum: %v", n)
}
