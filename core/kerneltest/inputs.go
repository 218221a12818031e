package kerneltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// inputs holds the input tensors of both passes of a case.
type inputs struct {
	Case
	memory  *memory
	aligned bool // no tensor starts off the alignment of its memory
	byName  map[string][]core.Tensor
	tensors []guarded
	of      *inputs // those whose content they have, if they are a copy
}

// newInputs allocates and fills all inputs but those that the forward pass saves.
func newInputs(c Case, m *memory, aligned bool) (*inputs, error) {
	rng := rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))
	in, err := inputsWith(c, m, aligned, func(in *inputs, a core.Arg, x core.Tensor) { in.random(rng, a, x) })
	if err != nil {
		return nil, err
	}
	if settle := ops.Of(c.Op).Settle; settle != nil {
		settle(in.named(), rng)
	}
	if c.Edit != nil {
		c.Edit(in.byName)
	}
	return in, nil
}

// inputsWith allocates them, and has each filled before the next.
func inputsWith(c Case, m *memory, aligned bool, fill func(*inputs, core.Arg, core.Tensor)) (*inputs, error) {
	in := &inputs{Case: c, memory: m, aligned: aligned, byName: map[string][]core.Tensor{}}
	for _, pass := range []core.Pass{core.Forward, core.Backward} {
		sig, err := core.NewSignature(c.Op, pass, c.Facts)
		if err != nil {
			return nil, err
		}
		for _, a := range sig.In {
			if a.Saved || in.byName[a.Name] != nil {
				continue
			}
			for range a.Count {
				x, err := in.add(a)
				if err != nil {
					return nil, err
				}
				fill(in, a, x)
			}
		}
	}
	return in, nil
}

// add allocates one input; unless aligned, it starts off the alignment of its memory, as shift says.
func (in *inputs) add(a core.Arg) (core.Tensor, error) {
	g, err := newGuarded(in.memory, a.Name, a.DType, in.bind(a.Shape), in.shift(len(in.tensors)))
	if err != nil {
		return core.Tensor{}, fmt.Errorf("input %s: %w", a.Name, err)
	}
	in.tensors = append(in.tensors, g)
	in.byName[a.Name] = append(in.byName[a.Name], g.Tensor)
	return g.Tensor, nil
}

// bind returns a shape of the case. Unless aligned, there are fewer sequences than tokens, and more places in a table
// than blocks: a kernel may take none of these numbers for another.
func (in *inputs) bind(s core.Shape) core.Shape {
	bound := s.Bind(in.Tokens, in.Positions)
	for i, d := range s {
		switch {
		case in.aligned:
		case d == core.DimB:
			bound[i] -= in.Tokens / 4
		case d == core.DimM:
			bound[i] += 3
		}
	}
	return bound
}

// shift returns by how many elements tensor i starts off the alignment of its memory: each of a case by another
// number, up to those of a vector of sixteen.
func (in *inputs) shift(i int) int {
	if in.aligned {
		return 0
	}
	return (i + in.Tokens) % 16
}

// copied returns the same inputs in other memory, which can be checked for writes.
func (in *inputs) copied(m *memory) (*inputs, error) {
	c := &inputs{Case: in.Case, memory: m, aligned: in.aligned, byName: map[string][]core.Tensor{}, of: in}
	for i, x := range in.tensors {
		t, err := c.add(core.Arg{Name: x.name, DType: x.DType, Shape: x.Shape})
		if err != nil {
			return nil, err
		}
		copy(t.Data, x.Data)
		c.tensors[i].seal()
	}
	return c, nil
}

// save makes the outputs of a forward call that the backward pass reads its inputs.
func (in *inputs) save(c *core.Call) error {
	if c.Pass == core.Backward {
		return nil
	}
	backward, err := core.NewSignature(c.Op, core.Backward, c.Facts)
	if err != nil {
		return err
	}
	for _, a := range backward.In {
		if !a.Saved {
			continue
		}
		x, err := in.add(a)
		if err != nil {
			return err
		}
		copy(x.Data, c.Output(a.Name).Data)
	}
	return nil
}

// site is that of all calls, which in a run always have one: whoever keeps something by it finds other inputs there.
const site = "layers.0.verified"

// call returns a pass's call with the inputs, and with new outputs in memory m.
func (in *inputs) call(pass core.Pass, m core.Memory) (*core.Call, []guarded, error) {
	c, err := core.NewCall(in.Op, pass, in.Facts)
	if err != nil {
		return nil, nil, err
	}
	c.Site = site
	for _, a := range c.Sig.In {
		c.Set(a.Name, in.byName[a.Name]...)
	}
	var outputs []guarded
	for i, a := range tensors(c.Sig.Out) {
		g, err := newGuarded(m, a.Name, a.DType, in.bind(a.Shape), in.shift(i+1))
		if err != nil {
			return nil, nil, fmt.Errorf("output %s: %w", a.Name, err)
		}
		outputs = append(outputs, g)
		c.Out[i] = g.Tensor
	}
	return c, outputs, nil
}

// random fills an input, with what it has in a model.
func (in *inputs) random(rng *rand.Rand, a core.Arg, x core.Tensor) {
	o := ops.Of(in.Op)
	if x.DType == core.Int32 || x.DType == core.NF4 { // of which not everything may be filled
		fill(x.Data, guardByte)
	}
	if x.DType == core.Int32 {
		if o.Indices != nil {
			o.Indices(in.named(), rng, x.Int32s())
		}
		return
	}
	if x.DType == core.Float32 { // no copy
		in.fill(rng, a, x.Float32s())
		return
	}
	v := make([]float32, x.Elems())
	in.fill(rng, a, v)
	x.Store(v, 0)
}

// fill is random for the numbers of an input before they are stored.
func (in *inputs) fill(rng *rand.Rand, a core.Arg, v []float32) {
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	if f := ops.Of(in.Op).Fill; f != nil {
		f(in.named(), rng, a, v)
	}
}

// named are the inputs as package opdef takes them.
func (in *inputs) named() *opdef.Inputs {
	return &opdef.Inputs{Facts: in.Facts, Tokens: in.Tokens, Positions: in.Positions, Named: in.byName}
}

// terms is Op.Terms of package opdef.
func (in *inputs) terms(pass core.Pass, output string) []float64 {
	return ops.Of(in.Op).Terms(in.named(), pass, output)
}

// borders is Op.Borders of package opdef, nil without.
func (in *inputs) borders(pass core.Pass, output string) []float64 {
	if f := ops.Of(in.Op).Borders; f != nil {
		return f(in.named(), pass, output)
	}
	return nil
}
