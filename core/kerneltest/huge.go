package kerneltest

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// hugeElems is more than an index of 32 bits can count.
const hugeElems = 1 << 31

// hugeEdge is how many tokens at both ends of a huge call have data, and are looked at.
const hugeEdge = 3

// huge is a forward call whose largest input has more than that many elements, for ops
// that treat each token by itself: the tokens between the first and the last few are
// zeros. An index that overflows shows at the last ones.
func (t *trial) huge(ctx context.Context, elems int) error {
	c, room := t.of, t.options.Room
	if !ops.Of(c.Op).TokenWise {
		return skipf("%s of so many tokens would take too long", c.Op)
	}
	sig, err := core.NewSignature(c.Op, core.Forward, c.Facts)
	if err != nil {
		return err
	}
	t.Tokens = elems/widest(sig.In) + hugeEdge
	need := size(sig.In, t.Tokens, c.Positions) + size(sig.Out, t.Tokens, c.Positions)
	// The reference and the kernel's own scratch memory need little beside it.
	switch need += need / 8; {
	case room == 0 || t.options.Inputs == nil:
		return skipf("it takes %.1f GB of memory and is run on request only", float64(need)/1e9)
	case need > room:
		return skipf("it takes %.1f GB of memory, and %.1f GB are free", float64(need)/1e9, float64(room)/1e9)
	}
	if err := t.runHuge(ctx); err != nil {
		t.fail(violation(core.Forward, "", err))
	}
	return nil
}

// widest returns the most elements that a token has in any of the tensors.
func widest(args []core.Arg) int {
	n := 1
	for _, a := range args {
		if a.Shape[0] == core.DimT {
			n = max(n, a.Shape.Bind(1, 0).Elems())
		}
	}
	return n
}

func size(args []core.Arg, tokens, positions int) int64 {
	var n int64
	for _, a := range args {
		n += int64(a.DType.Bytes(a.Shape.Bind(tokens, positions).Elems()))
	}
	return n
}

// runHuge compares the edges of the huge call with the case itself, which has no more.
func (t *trial) runHuge(ctx context.Context) error {
	c := t.of
	small, err := newInputs(c, &memory{Memory: heap{}}, true)
	if err != nil {
		return err
	}
	want, err := small.expect(ctx, core.Forward)
	if err != nil {
		return err
	}
	call, err := core.NewCall(c.Op, core.Forward, c.Facts)
	if err != nil {
		return err
	}
	from := &memory{Memory: t.options.Inputs}
	defer from.free()
	for i, a := range call.Sig.In {
		x, err := allocate(from, a, t.Tokens, c.Positions)
		if err != nil {
			return err
		}
		if a.Shape[0] == core.DimT {
			copyEdges(x, small.byName[a.Name][0], true)
		} else {
			copy(x.Data, small.byName[a.Name][0].Data)
		}
		call.In[i] = x
	}
	for i, a := range call.Sig.Out {
		if call.Out[i], err = allocate(t.memory, a, t.Tokens, c.Positions); err != nil {
			return err
		}
	}
	if err := core.Run(ctx, t.kernel, call); err != nil {
		return err
	}
	for i, a := range call.Sig.Out {
		edges := core.NewTensor(a.DType, want.want.Out[i].Shape...)
		copyEdges(call.Out[i], edges, false)
		share, err := want.compare(i, edges)
		t.Share = max(t.Share, share)
		if err != nil {
			t.fail(violation(core.Forward, a.Name, fmt.Errorf("the first and last tokens of %d: %w", t.Tokens, err)))
		}
	}
	return nil
}

// allocate leaves the memory as it is, so that what nobody touches takes none.
func allocate(m *memory, a core.Arg, tokens, positions int) (core.Tensor, error) {
	shape := a.Shape.Bind(tokens, positions)
	b, err := m.Alloc(a.DType.Bytes(shape.Elems()))
	return core.Tensor{DType: a.DType, Shape: shape, Data: b}, err
}

// copyEdges copies between the first and last tokens of a huge tensor and those of one
// that has no others.
func copyEdges(huge, small core.Tensor, in bool) {
	half := len(small.Data) / 2
	first, last := huge.Data[:half], huge.Data[len(huge.Data)-half:]
	if in {
		copy(first, small.Data[:half])
		copy(last, small.Data[half:])
		return
	}
	copy(small.Data[:half], first)
	copy(small.Data[half:], last)
}

// half returns the facts in half precision, if the kernel supports them so.
func half(k core.Kernel, f core.Facts) core.Facts {
	for _, d := range []core.DType{core.BFloat16, core.Float16} {
		if h := stored(k.Info().Op, f, d); k.Supports(h) == nil {
			return h
		}
	}
	return f
}
