package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

// inputs holds the input tensors of both passes of a case.
type inputs struct {
	Case
	memory  *memory
	aligned bool // no tensor starts off the alignment of its memory
	byName  map[string][]core.Tensor
	tensors []guarded
}

// newInputs allocates and fills all inputs but those that the forward pass saves.
func newInputs(c Case, m *memory, aligned bool) (*inputs, error) {
	in := &inputs{Case: c, memory: m, aligned: aligned, byName: map[string][]core.Tensor{}}
	rng := rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))
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
				in.random(rng, a, x)
			}
		}
	}
	if c.Op == core.MoEGate {
		in.separate(rng)
	}
	if c.Edit != nil {
		c.Edit(in.byName)
	}
	for i := range in.tensors {
		in.tensors[i].before = in.tensors[i].sum()
	}
	return in, nil
}

// add allocates one input; unless aligned, every other one starts off the alignment of
// its memory.
func (in *inputs) add(a core.Arg) (core.Tensor, error) {
	g, err := newGuarded(in.memory, a.Name, a.DType, a.Shape.Bind(in.Tokens, in.Positions), in.shift(len(in.tensors)))
	if err != nil {
		return core.Tensor{}, fmt.Errorf("input %s: %w", a.Name, err)
	}
	in.tensors = append(in.tensors, g)
	in.byName[a.Name] = append(in.byName[a.Name], g.Tensor)
	return g.Tensor, nil
}

// shift returns by how many elements tensor i starts off the alignment of its memory.
func (in *inputs) shift(i int) int {
	if in.aligned {
		return 0
	}
	return (i + in.Tokens) % 2
}

// copied returns the same inputs in other memory.
func (in *inputs) copied(m *memory) (*inputs, error) {
	c := &inputs{Case: in.Case, memory: m, aligned: in.aligned, byName: map[string][]core.Tensor{}}
	for i, x := range in.tensors {
		t, err := c.add(core.Arg{Name: x.name, DType: x.DType, Shape: x.Shape})
		if err != nil {
			return nil, err
		}
		copy(t.Data, x.Data)
		c.tensors[i].before = c.tensors[i].sum()
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
		g := &in.tensors[len(in.tensors)-1]
		g.before = g.sum()
	}
	return nil
}

// call returns a pass's call with the inputs, and with new outputs in memory m.
func (in *inputs) call(pass core.Pass, m core.Memory) (*core.Call, []guarded, error) {
	c, err := core.NewCall(in.Op, pass, in.Facts)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range c.Sig.In {
		c.Set(a.Name, in.byName[a.Name]...)
	}
	var outputs []guarded
	all := names(c.Sig.Out)
	for _, a := range c.Sig.Out {
		for range a.Count {
			i := len(outputs)
			g, err := newGuarded(m, all[i], a.DType, a.Shape.Bind(in.Tokens, in.Positions), in.shift(i+1))
			if err != nil {
				return nil, nil, fmt.Errorf("output %s: %w", all[i], err)
			}
			outputs = append(outputs, g)
			c.Out[i] = g.Tensor
		}
	}
	return c, outputs, nil
}

// random fills an input: activations and gradients near 1, weights so that sums over
// them stay near 1, tables of true rotations, positions in any order, experts distinct
// within a token.
func (in *inputs) random(rng *rand.Rand, a core.Arg, x core.Tensor) {
	if x.DType == core.Int32 {
		in.randomIndices(rng, a.Name, x.Int32s())
		return
	}
	v := make([]float32, x.Elems())
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	in.fit(rng, a, v)
	x.Store(v, 0)
}

// randomIndices fills an input that points into another one.
func (in *inputs) randomIndices(rng *rand.Rand, name string, v []int32) {
	switch name {
	case "positions":
		for t := range v {
			v[t] = int32(rng.IntN(in.Positions))
		}
	case "expert_ids":
		for ; len(v) > 0; v = v[in.Facts.TopK:] {
			for k, e := range rng.Perm(in.Facts.Experts)[:in.Facts.TopK] {
				v[k] = int32(e)
			}
		}
	case "keys": // documents one after the other; some queries see nothing
		first := 0
		for t := range len(v) / 2 {
			if rng.IntN(8) == 0 {
				first = t
			}
			v[2*t], v[2*t+1] = int32(first), int32(t+1)
			if rng.IntN(16) == 0 {
				v[2*t+1] = v[2*t]
			}
		}
	case "labels": // some ignored
		for t := range v {
			if v[t] = int32(rng.IntN(in.Facts.Vocab)); rng.IntN(4) == 0 {
				v[t] = -100
			}
		}
	}
}

// fit turns standard normal values into such as the input has in a model.
func (in *inputs) fit(rng *rand.Rand, a core.Arg, v []float32) {
	switch a.Name {
	case "weight":
		for i := range v {
			if in.Op == core.RMSNorm || in.Op == core.AddRMSNorm { // offset + weight is around 1
				v[i] = v[i]/2 + float32(1-in.Facts.Offset)
			} else {
				v[i] *= 2 / float32(math.Sqrt(float64(in.Facts.Dim)))
			}
		}
	case "gate", "up", "gate_up", "down":
		if in.Op == core.MoEExperts {
			for i := range v {
				v[i] /= float32(math.Sqrt(float64(a.Shape[len(a.Shape)-1])))
			}
		}
	case "cos":
		for i := range v {
			v[i] = float32(math.Cos(float64(v[i])))
		}
	case "sin": // of the same angles, up to the rounding of cos
		cos := in.byName["cos"][0].Float32s()
		for i := range v {
			v[i] = float32(math.Copysign(math.Sqrt(1-float64(cos[i])*float64(cos[i])), float64(v[i])))
		}
	case "routing_weights":
		in.softmax(rng, v)
	}
}

// softmax makes v [T,K] the probabilities of the first K of E random logits, divided by
// their sum if the facts say so.
func (in *inputs) softmax(rng *rand.Rand, v []float32) {
	for K := in.Facts.TopK; len(v) > 0; v = v[K:] {
		var kept, rest float64
		for k := range K {
			v[k] = float32(math.Exp(float64(v[k])))
			kept += float64(v[k])
		}
		for range in.Facts.Experts - K {
			rest += math.Exp(rng.NormFloat64() - 1)
		}
		if in.Facts.Routing == core.RoutingNormalized {
			rest = 0
		}
		for k := range K {
			v[k] = float32(float64(v[k]) / (kept + rest))
		}
	}
}
