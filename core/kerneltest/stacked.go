package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// layers is the height of a stack.
const layers = 32

// hopeless is a limit beyond which a comparison says nothing.
const hopeless = 0.25

// errHopeless ends a pass over the layers; Result.Reason says why.
var errHopeless = errors.New("rounding alone is too far off")

// stack is a kernel applied many times, each time to what it gave before.
type stack struct {
	kernel  core.Kernel
	facts   core.Facts
	memory  *memory
	blurred bool // what it gives is moved by what rounding may differ
	layers  []*inputs
	calls   []*core.Call         // forward
	grads   map[string][]float64 // with respect to the linked inputs of the last layer run
}

// stacked finds errors that are small in one call and add up: it stacks layers of the op,
// each with weights of its own, runs them forward and backward in three ways, and
// compares every output of every layer with the stack in float64. The limit comes from the
// stack of the reference in float32, blurred; where that says nothing any more, the stack ends.
// Between layers, activations and gradients are scaled by powers of two, so that they
// neither vanish nor overflow.
func (t *trial) stacked(ctx context.Context) error {
	c, how := t.of, (*opdef.Stack)(nil)
	if of := ops.Of(c.Op).Stack; of != nil {
		how = of(c.Facts)
	}
	if how == nil {
		return skipf("the outputs of %s are not inputs of it", c.Op)
	}
	plain, exact := &memory{Memory: heap{}}, stored(c.Op, c.Facts, core.Float64)
	s := &stacks{Case: c, Stack: how, result: t.Result, all: [3]*stack{
		{kernel: t.kernel, facts: c.Facts, memory: t.memory},
		{kernel: reference.Single(c.Op), facts: c.Facts, memory: plain, blurred: true},
		{kernel: reference.Kernel(c.Op), facts: exact, memory: plain}}}
	err := s.forward(ctx)
	for l := len(s.scales) - 1; l >= 0 && err == nil && len(passes(t.kernel)) == 2; l-- {
		err = s.backward(ctx, l, len(s.scales)-l)
	}
	if errors.Is(err, errHopeless) {
		return nil
	}
	return err
}

// stacks are three of them, to be compared: of the kernel, of the reference in float32, and
// of the reference in float64.
type stacks struct {
	Case
	*opdef.Stack
	scales []float64 // of what goes from each layer to the next
	result *Result
	all    [3]*stack
}

func (d *stacks) forward(ctx context.Context) error {
	for l := range layers {
		base := d.Case
		base.Seed, base.Edit = uint64(l+1), narrow(d.Around)
		data, err := newInputs(base, &memory{Memory: heap{}}, true)
		if err != nil {
			return err
		}
		for _, s := range d.all {
			if err := d.layer(ctx, s, data); err != nil {
				return fmt.Errorf("layer %d: %w", l+1, err)
			}
		}
		calls := [3]*core.Call{d.all[0].calls[l], d.all[1].calls[l], d.all[2].calls[l]}
		if err := d.compare(core.Forward, l+1, calls); err != nil {
			break // the layers so far can go backward
		}
		out, into := d.link()
		d.scales = append(d.scales, powerOfTwo(d.all[2].value(l, out, into, d.Residual)))
	}
	return nil
}

// link is one of Next, the same each time: all outputs of a layer get the scale of one.
func (d *stacks) link() (out, into string) {
	out = slices.Min(slices.Collect(maps.Keys(d.Next)))
	return out, d.Next[out]
}

// layer adds a layer to a stack, with the weights of data and, except for the first, what
// the layer below gives, and runs it.
func (d *stacks) layer(ctx context.Context, s *stack, data *inputs) error {
	c := data.Case
	c.Facts = s.facts
	in, err := inputsWith(c, s.memory, true, func(*inputs, core.Arg, core.Tensor) {})
	if err != nil {
		return err
	}
	for i, x := range in.tensors {
		if x.DType == data.tensors[i].DType {
			copy(x.Data, data.tensors[i].Data)
		} else {
			opdef.Store(x.Tensor, values(data.tensors[i].Tensor))
		}
	}
	if l := len(s.layers) - 1; l >= 0 {
		for out, into := range d.Next {
			opdef.Store(in.byName[into][0], opdef.Times(d.scales[l], s.value(l, out, into, d.Residual)))
		}
	}
	call, err := s.run(ctx, in, core.Forward)
	if err != nil {
		return err
	}
	s.layers, s.calls = append(s.layers, in), append(s.calls, call)
	return in.save(call)
}

// run runs a pass of a layer.
func (s *stack) run(ctx context.Context, in *inputs, pass core.Pass) (*core.Call, error) {
	call, _, err := in.call(pass, s.memory)
	if err == nil {
		err = runPoisoned(ctx, s.kernel, call, poisons[0])
	}
	if err == nil && s.blurred {
		blur(call, in.Seed)
	}
	return call, err
}

// value is what a layer passes on: an output, or its sum with the input.
func (s *stack) value(l int, out, into string, residual bool) []float64 {
	v := values(s.calls[l].Output(out))
	if residual {
		for i, x := range values(s.layers[l].byName[into][0]) {
			v[i] += x
		}
	}
	return v
}

// backward runs layer l backward in all stacks, as the one at that height from the top.
// The first has random upstream gradients; the others have those with respect to the
// inputs of the layer above.
func (d *stacks) backward(ctx context.Context, l, height int) error {
	scale := 1.0
	if height > 1 {
		_, into := d.link()
		scale = powerOfTwo(d.all[2].grads[into])
	}
	var calls [3]*core.Call
	for i, s := range d.all {
		in := s.layers[l]
		if height > 1 {
			for out, into := range d.Next {
				opdef.Store(in.byName["d"+out][0], opdef.Times(scale, s.grads[into]))
			}
		}
		call, err := s.run(ctx, in, core.Backward)
		if err != nil {
			return fmt.Errorf("layer %d: %w", l+1, err)
		}
		s.grads = map[string][]float64{}
		for out, into := range d.Next {
			g := values(gradient(call, into))
			if d.Residual {
				for j, v := range values(in.byName["d"+out][0]) {
					g[j] += v
				}
			}
			s.grads[into] = g
		}
		calls[i] = call
	}
	return d.compare(core.Backward, height, calls)
}

// gradient returns the output of a backward call that belongs to an input.
func gradient(c *core.Call, input string) core.Tensor {
	for i, a := range c.Sig.Out {
		if a.Name == "d"+input || a.Also == input {
			return c.Out[i]
		}
	}
	return core.Tensor{}
}

// compare compares the outputs of one layer after so many. The first failure of a tensor
// is enough: the layers after it inherit it.
func (d *stacks) compare(pass core.Pass, height int, calls [3]*core.Call) error {
	for i, a := range calls[2].Sig.Out {
		if a.Count != 1 || a.DType == core.Int32 || d.failed(pass, a.Name) {
			continue
		}
		got, single, want := calls[0].Out[i], calls[1].Out[i], calls[2].Out[i]
		sep := apart(got, want, single, 1)
		limit := limit(d.Facts, sep.rounding())
		if limit > hopeless || sep.overflow {
			d.result.Reason = fmt.Sprintf("%s in %s compared over %d layers only: after %d, rounding alone is off by %.2g",
				pass, d.Facts.DType, height-1, height, sep.rounding())
			return errHopeless
		}
		share, err := sep.judge(limit)
		d.result.Share = max(d.result.Share, share)
		if err == nil {
			err = leans(d.Facts, got, want, single)
		}
		if err != nil {
			d.result.fail(violation(pass, a.Name, fmt.Errorf("after %d layers: %w", height, err)))
		}
	}
	return nil
}

func (d *stacks) failed(pass core.Pass, name string) bool {
	return slices.ContainsFunc(d.result.Violations, func(v Violation) bool {
		return v.Pass == pass.String() && v.Tensor == name
	})
}
