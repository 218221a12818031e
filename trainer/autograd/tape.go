package autograd

import (
	"context"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// slot is a buffer of the program: a leaf's own memory, or a place in a planned block.
type slot struct {
	spec    Spec
	mem     core.Memory
	leaf    bool
	keep    bool
	lasting bool // what one run leaves there the next one reads
	tensor  core.Tensor
	name    *uint64 // of a leaf's content; see Value.Named

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
	region           *region // of the forward pass
	again            bool    // it computes a value of the forward pass again, during the backward pass
	// in and out are the buffers that it reads and writes, some absent. Passes over the
	// tape may put other buffers of the same size in their place before it is bound.
	in, out []ref
	// over has, for the outputs that are added to a sum instead of being written, the
	// buffer of the sum so far, which is the output's own place; nil if there are none.
	over      []*slot
	adds      []int // the outputs for which that is possible
	whole     []int // those that can be added to a sum over runs
	onto      []int // those that are, unless the sum begins anew
	sums      *overRuns
	sum       bool  // out[0] is the sum of in
	completes []int // the parameters whose gradients nothing changes any more behind it
	scratch   int   // how many outputs, the last, are only used while it runs
	work      core.Work
	inPlace   bool // out[0] may take the place of in[place]
	place     int  // 0 unless it is a backward instruction
	byParts   *byParts
	looked    *looked
	replaced  bool          // by instructions after it, see updateByParts
	elsewhere time.Duration // of the last run, what its Stat does not count
	cheaper   *Again        // in which a region may compute outputs again; nil: as in the first place

	// bind resolves the buffers to tensors, once they are planned.
	bind func(in *instr) (run func(ctx context.Context) error)
	run  func(ctx context.Context) error
	step func() core.Step // the call that is all that run does, or nil
	stat *Stat
}

// reads yields every buffer that the instruction reads, those it adds to among them.
func (in *instr) reads(yield func(*slot) bool) {
	for _, r := range in.in {
		if r.slot != nil && !yield(r.slot) {
			return
		}
	}
	for _, s := range in.over {
		if s != nil && !yield(s) {
			return
		}
	}
}

// writes yields every buffer that the instruction writes, and its place among the outputs.
func (in *instr) writes(yield func(int, *slot) bool) {
	for k, r := range in.out {
		if r.slot != nil && !yield(k, r.slot) {
			return
		}
	}
}

// addsTo reports whether output k is added to a sum.
func (in *instr) addsTo(k int) bool { return in.over != nil && in.over[k] != nil }

// done returns the work of a run: what the operation says and, unless that has bytes,
// each buffer once, those that are added to, too.
func (in *instr) done() core.Work {
	w := in.work
	if in.sum {
		w.Elementwise = float64((len(in.in) - 1) * in.out[0].shape.Elems())
	}
	if w.Bytes > 0 {
		return w
	}
	for _, r := range slices.Concat(in.in, in.out[:len(in.out)-in.scratch]) {
		if r.slot != nil {
			w.Bytes += int64(r.slot.spec.bytes())
		}
	}
	return w
}

func newForward(s *symbol) *instr {
	return &instr{op: s.op.Name, kernel: s.op.Kernel, path: s.path, region: s.region, in: s.in, out: refs(s.out...),
		inPlace: s.op.InPlace,
		work:    s.op.Work, cheaper: s.op.Again,
		bind: func(in *instr) func(context.Context) error {
			inT, outT := tensors(in.in), tensors(in.out)
			if s.op.Step != nil {
				prepare := s.op.Step()
				in.step = func() core.Step {
					name(inT, in.in)
					return prepare(inT, outT)
				}
			}
			return func(ctx context.Context) error {
				name(inT, in.in)
				return s.op.Forward(ctx, inT, outT)
			}
		}}
}

// newAgain computes outputs of a forward instruction again in its cheaper way.
func newAgain(in *instr) *instr {
	a := in.cheaper
	again := *in
	again.in, again.out, again.kernel, again.inPlace, again.work = nil, nil, "", false, core.Work{}
	for _, i := range a.Inputs {
		again.in = append(again.in, in.in[i])
	}
	for _, i := range a.Outputs {
		again.in = append(again.in, in.out[i])
	}
	for _, i := range a.Writes {
		again.out = append(again.out, in.out[i])
	}
	again.bind = func(in *instr) func(context.Context) error {
		inT, outT := tensors(in.in), tensors(in.out)
		return func(ctx context.Context) error { return a.Run(ctx, inT, outT) }
	}
	return &again
}

// newBackward reads the gradients of the outputs, then the forward's inputs and outputs;
// it writes the gradients of the inputs, then the scratch memory.
func newBackward(s *symbol, dout, din []ref, work core.Work) *instr {
	b := s.op.Backward
	in, out := make([]ref, len(s.in)), make([]ref, len(s.out))
	for _, i := range b.Inputs {
		in[i] = s.in[i]
	}
	for _, i := range b.Outputs {
		out[i] = ref{s.out[i], s.out[i].spec.Shape}
	}
	scratch := make([]*slot, len(b.Scratch))
	for i, spec := range b.Scratch {
		scratch[i] = s.g.newSlot(spec, nil)
	}
	reads := func(i *instr) ([]core.Tensor, *Grads) {
		read := tensors(i.in)
		return read, &Grads{DOut: read[:len(dout)], In: read[len(dout):][:len(in)], Out: read[len(dout)+len(in):],
			DIn: make([]core.Tensor, len(din)), Add: make([]bool, len(din))}
	}
	i := &instr{op: s.op.Name, kernel: s.op.Kernel, path: s.path, pass: core.Backward,
		in: slices.Concat(dout, in, out), out: slices.Concat(din, refs(scratch...)), adds: b.Accumulate, whole: b.AddsWhole,
		scratch: len(scratch), work: work, inPlace: b.InPlace && din[0].slot != nil, place: len(dout),
		bind: func(i *instr) func(context.Context) error {
			written := tensors(i.out)
			read, g := reads(i)
			g.DIn, g.Scratch = written[:len(din)], written[len(din):]
			for k := range g.Add {
				g.Add[k] = i.addsTo(k)
			}
			ready := func() *Grads {
				name(read, i.in)
				for _, k := range i.onto {
					g.Add[k], g.Apart = i.sums.adding, i.sums.apart
				}
				return g
			}
			if b.Step != nil {
				prepare := b.Step()
				i.step = func() core.Step { return prepare(ready()) }
			}
			return func(ctx context.Context) error { return b.Run(ctx, ready()) }
		}}
	if b.Parts != nil {
		i.byParts = &byParts{*b.Parts, reads}
	}
	if b.Looked != nil {
		i.looked = &looked{of: b.Looked.Of, rows: in[b.Looked.Rows], skip: int32(b.Looked.Skip), dout: dout[0]}
	}
	return i
}

// sum returns the buffer that holds the sum of the terms; one term is its own sum.
// Sums lie in the graph's memory, out of reach of the plugins; see folding.base for one
// exception.
func (g *Graph) sum(terms []*slot, path string) *slot {
	if len(terms) == 1 {
		return terms[0]
	}
	total := g.newSlot(terms[0].spec, nil)
	g.tape = append(g.tape, &instr{op: "sum", path: path, pass: core.Backward, in: refs(terms...), out: refs(total),
		sum: true, inPlace: true, bind: bindSum})
	return total
}

// bindSum adds the terms from left to right; the sum may take the place of the first.
func bindSum(in *instr) func(context.Context) error {
	dst, terms := in.out[0].tensor().Float32s(), make([][]float32, len(in.in))
	for i, t := range tensors(in.in) {
		terms[i] = t.Float32s()
	}
	part := func(lo, hi int) {
		d := dst[lo:hi]
		simd.Add(d, terms[0][lo:hi], terms[1][lo:hi])
		for _, t := range terms[2:] {
			simd.Add(d, d, t[lo:hi])
		}
	}
	return func(context.Context) error { simd.Parallel(len(dst), 1<<14, part); return nil }
}

// refs sees slots under their own shapes.
func refs(slots ...*slot) []ref {
	out := make([]ref, len(slots))
	for i, s := range slots {
		out[i] = ref{s, s.spec.Shape}
	}
	return out
}

// name gives the tensors of leaves the names that their contents have now.
func name(tensors []core.Tensor, refs []ref) {
	for i, r := range refs {
		if r.slot != nil && r.slot.name != nil {
			tensors[i].Content = *r.slot.name
		}
	}
}

func tensors(refs []ref) []core.Tensor {
	out := make([]core.Tensor, len(refs))
	for i, r := range refs {
		out[i] = r.tensor()
	}
	return out
}
