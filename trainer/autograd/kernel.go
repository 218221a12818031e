package autograd

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
)

// Kernel returns the operation that calls a fused kernel: one node forward, one
// backward, whatever the plain form is made of. Its inputs are those of the op's
// forward signature, in order; tokens and positions bind the symbolic axes. Outputs and
// gradients lie in the kernel's own memory, if it has one. An op for inference has no node backward.
func Kernel(k core.Kernel, op core.Op, f core.Facts, site string, tokens, positions int) (Op, error) {
	fwd, err := core.NewCall(op, core.Forward, f)
	if err != nil {
		return Op{}, err
	}
	fwd.Site = site
	o := Op{Name: string(op), Kernel: k.Info().Name, Memory: core.OutputsOf(k, nil),
		Work: core.NewWork(op, core.Forward, f, tokens, positions)}
	for _, a := range fwd.Sig.Out {
		spec := Spec{a.DType, a.Shape.Bind(tokens, positions)}
		o.Outputs = append(o.Outputs, slices.Repeat([]Spec{spec}, a.Count)...)
		if !a.Saved && a.DType != core.Int32 { // those that have a gradient come first
			o.Diff += a.Count
		}
	}
	o.Forward = func(ctx context.Context, in, out []core.Tensor) error {
		copy(fwd.In, in)
		copy(fwd.Out, out)
		if err := core.Run(ctx, k, fwd); err != nil {
			return err
		}
		return checkReturned(k, fwd)
	}
	_, serial := k.(core.Serial)
	if serial && !slices.ContainsFunc(o.Outputs, func(s Spec) bool { return s.DType == core.Int32 }) {
		o.Step = func() func(in, out []core.Tensor) core.Step {
			own := another(fwd)
			return func(in, out []core.Tensor) core.Step {
				copy(own.In, in)
				copy(own.Out, out)
				return core.Step{Kernel: k, Call: own}
			}
		}
	}
	if len(op.Passes()) == 1 {
		o.Diff = 0
		return o, nil
	}
	bwd, err := core.NewCall(op, core.Backward, f)
	if err != nil {
		return Op{}, err
	}
	bwd.Site = site
	o.Backward = kernelBackward(k, fwd, bwd, tokens)
	o.Backward.Work = core.NewWork(op, core.Backward, f, tokens, positions)
	return o, nil
}

// checkReturned refuses what nothing could be computed with: a plugin's kernel has been
// asked again by then, or replaced, but one that is linked in has nothing in its place.
func checkReturned(k core.Kernel, c *core.Call) error {
	if err := c.CheckReturned(); err != nil {
		return &core.KernelError{Kernel: k.Info().Name, Op: c.Op, Pass: c.Pass, Site: c.Site, Err: err}
	}
	return nil
}

// kernelBackward connects the tensors of the backward call with those of the forward
// by their names: dy is the gradient of y, dx that of x.
func kernelBackward(k core.Kernel, fwd, bwd *core.Call, tokens int) *Backward {
	in, out := names(fwd.Sig.In), names(fwd.Sig.Out)
	b := &Backward{All: true, Zeros: true}
	var sources []func(*Grads) core.Tensor
	for _, name := range names(bwd.Sig.In) {
		if i := slices.Index(in, name); i >= 0 {
			b.Inputs = append(b.Inputs, i)
			sources = append(sources, func(g *Grads) core.Tensor { return g.In[i] })
		} else if i := slices.Index(out, name); i >= 0 {
			b.Outputs = append(b.Outputs, i)
			sources = append(sources, func(g *Grads) core.Tensor { return g.Out[i] })
		} else {
			i := slices.Index(out, name.gradientOf())
			sources = append(sources, func(g *Grads) core.Tensor { return g.DOut[i] })
		}
	}
	info := k.Info()
	for _, a := range bwd.Sig.Out {
		for i := range a.Count {
			of := slices.Index(in, argName{a.Name, i}.gradientOf())
			b.Wrt = append(b.Wrt, of)
			if info.CanAdd(a.Name, tokens) {
				b.AddsWhole = append(b.AddsWhole, of)
			}
			if a.Also != "" {
				b.Shared = append(b.Shared, [2]int{slices.Index(in, argName{name: a.Also}), of})
			}
		}
	}
	bwd.Add = make([]bool, len(bwd.Out))
	fill := func(c *core.Call, g *Grads) {
		for i, source := range sources {
			c.In[i] = source(g)
		}
		for i, w := range b.Wrt {
			c.Out[i], c.Add[i] = g.DIn[w], g.Add[w]
		}
	}
	if _, serial := k.(core.Serial); serial {
		b.Step = func() func(g *Grads) core.Step {
			own := another(bwd)
			return func(g *Grads) core.Step {
				fill(own, g)
				return core.Step{Kernel: k, Call: own}
			}
		}
	}
	b.Run = func(ctx context.Context, g *Grads) error {
		fill(bwd, g)
		if g.Apart && bwd.Adds() {
			return runApart(ctx, k, bwd)
		}
		return core.Run(ctx, k, bwd)
	}
	return b
}

// another returns a call like c, with tensors of its own: of those that go in a series, all are filled before the first
// is run.
func another(c *core.Call) *core.Call {
	own := *c
	own.In, own.Out, own.Add = slices.Clone(c.In), slices.Clone(c.Out), slices.Clone(c.Add)
	return &own
}

// runApart does what a call that adds to its outputs does, by one that does not.
func runApart(ctx context.Context, k core.Kernel, c *core.Call) error {
	apart, free, err := c.Apart(core.OutputsOf(k, nil))
	if err != nil {
		return err
	}
	defer free()
	if err := core.Run(ctx, k, apart); err != nil {
		return err
	}
	c.Join(apart)
	return nil
}

// argName is a tensor of a call: the name, and which one of those that share it.
type argName struct {
	name string
	i    int
}

// gradientOf returns the tensor whose gradient this one is, by the convention d + name.
func (a argName) gradientOf() argName { return argName{a.name[1:], a.i} }

func names(args []core.Arg) []argName {
	var out []argName
	for _, a := range args {
		for i := range a.Count {
			out = append(out, argName{a.Name, i})
		}
	}
	return out
}
