package autograd

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// slot is a buffer of the program: a leaf's own memory, or a place in a planned block.
type slot struct {
	spec   Spec
	mem    core.Memory
	leaf   bool
	keep   bool
	tensor core.Tensor

	// filled in by the planner
	first, last int   // instructions that write it first and read it last
	root        *slot // the buffer that it overwrites in place; itself otherwise
	offset      int
}

// ref is a slot seen under a shape; the zero ref is absent.
type ref struct {
	slot  *slot
	shape core.Shape
}

func (r ref) tensor() core.Tensor {
	if r.slot == nil {
		return core.Tensor{}
	}
	return r.slot.tensor.Reshape(r.shape...)
}

// instr is one instruction of the tape.
type instr struct {
	op, kernel, path string
	pass             core.Pass
	in, out          []ref // every buffer read and written, for the planner
	inPlace          bool  // out[0] may take the place of in[0]
	work             core.Work

	// bind resolves the buffers to tensors, once they are planned.
	bind func() (run func(ctx context.Context) error)
	run  func(ctx context.Context) error
	stat *Stat
}

func newForward(s *symbol) *instr {
	in := s.in
	out := make([]ref, len(s.out))
	for i, o := range s.out {
		out[i] = ref{o, o.spec.Shape}
	}
	return &instr{op: s.op.Name, kernel: s.op.Kernel, path: s.path, in: in, out: out, inPlace: s.op.InPlace,
		work: withBytes(s.op.Work, in, out),
		bind: func() func(context.Context) error {
			inT, outT := tensors(in), tensors(out)
			return func(ctx context.Context) error { return s.op.Forward(ctx, inT, outT) }
		}}
}

func newBackward(s *symbol, dout, din []ref) *instr {
	b := s.op.Backward
	in, out := make([]ref, len(s.in)), make([]ref, len(s.out))
	for _, i := range b.Inputs {
		in[i] = s.in[i]
	}
	for _, i := range b.Outputs {
		out[i] = ref{s.out[i], s.out[i].spec.Shape}
	}
	scratch := make([]ref, len(b.Scratch))
	for i, spec := range b.Scratch {
		scratch[i] = ref{s.g.newSlot(spec, nil), spec.Shape}
	}
	return &instr{op: s.op.Name, kernel: s.op.Kernel, path: s.path, pass: core.Backward,
		in: present(dout, in, out), out: present(din, scratch), work: withBytes(b.Work, dout, in, out, din),
		bind: func() func(context.Context) error {
			g := &Grads{In: tensors(in), Out: tensors(out), DOut: tensors(dout), DIn: tensors(din), Scratch: tensors(scratch)}
			return func(ctx context.Context) error { return b.Run(ctx, g) }
		}}
}

// sum returns the buffer that holds the sum of the terms; one term is its own sum.
// Sums lie in the graph's memory, out of reach of the plugins.
func (g *Graph) sum(terms []*slot, path string) *slot {
	if len(terms) == 1 {
		return terms[0]
	}
	spec := terms[0].spec
	in := make([]ref, len(terms))
	for i, t := range terms {
		in[i] = ref{t, spec.Shape}
	}
	total := g.newSlot(spec, nil)
	out := []ref{{total, spec.Shape}}
	g.tape = append(g.tape, &instr{op: "sum", path: path, pass: core.Backward, in: in, out: out, inPlace: true,
		work: withBytes(core.Work{Elementwise: float64((len(terms) - 1) * spec.Shape.Elems())}, in, out),
		bind: func() func(context.Context) error {
			dst, src := out[0].tensor().Float32s(), make([][]float32, len(in))
			for i, r := range in {
				src[i] = r.tensor().Float32s()
			}
			return func(context.Context) error { sumInto(dst, src); return nil }
		}})
	return total
}

// withBytes adds the bytes of the buffers, unless the work says how many there are.
func withBytes(w core.Work, lists ...[]ref) core.Work {
	if w.Bytes > 0 {
		return w
	}
	for _, r := range present(lists...) {
		w.Bytes += int64(r.shape.Elems() * r.slot.spec.DType.Size())
	}
	return w
}

func tensors(refs []ref) []core.Tensor {
	out := make([]core.Tensor, len(refs))
	for i, r := range refs {
		out[i] = r.tensor()
	}
	return out
}

func present(lists ...[]ref) []ref {
	var out []ref
	for _, list := range lists {
		for _, r := range list {
			if r.slot != nil {
				out = append(out, r)
			}
		}
	}
	return out
}
