package nn

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// group adds the site of an op that linear layers of one input are parts of, and lets build add
// those. The facts lack what weights say.
func (b *Builder) group(path string, op core.Op, facts core.Facts, build func() []*Linear) *site {
	s := b.site(path, op, facts)
	layers := build()
	w := layers[0].Weight
	s.facts.WeightDType, s.facts.Frozen = w.Tensor.DType, w.Frozen
	siteOf(b.sites, s).Facts = s.facts
	if w.Tensor.DType == core.NF4 {
		b.stayPlain(s, "its weights are nf4, which "+string(op)+" has not")
	}
	for _, l := range layers {
		siteOf(b.sites, l.site).Within = path
		if l.int8 != nil {
			b.stayPlain(s, "its layers multiply int8 activations, which "+string(op)+" has not")
		} else if l.Weight.Frozen != w.Frozen || l.Bias != nil && l.Bias.Frozen != w.Frozen {
			b.stayPlain(s, halfFrozen)
		} else if l.Weight.Tensor.DType != w.Tensor.DType {
			b.stayPlain(s, "its weights are of several dtypes")
		}
	}
	return s
}

// around returns the sites of the larger ops that a site is a part of.
func (b *Body) around(s *site) (larger []*site) {
	for s != nil {
		within := siteOf(b.sites, s).Within
		i := slices.IndexFunc(b.sites, func(at core.Site) bool { return at.Path == within })
		if i < 0 {
			break
		}
		s = b.sites[i].Hook.(*site)
		larger = append(larger, s)
	}
	return larger
}

// patched reports whether there is a kernel.
func (s *site) patched() bool { return s != nil && s.kernel != nil }

// forwardAll records linear layers of one input, together if a kernel at s does that; s may be nil.
func forwardAll(c *Context, s *site, layers []*Linear, x *autograd.Value) (out []*autograd.Value) {
	if s.patched() {
		return s.fused(c, x.Shape()[0], operands(c, layers, x)...)
	}
	for _, l := range layers {
		out = append(out, l.Forward(c, x))
	}
	return out
}

// operands are x, the weights of layers, what multiplies those in int8, and the biases.
func operands(c *Context, layers []*Linear, x *autograd.Value) []*autograd.Value {
	in := []*autograd.Value{x}
	var scales, biases []*autograd.Value
	for _, l := range layers {
		in = append(in, c.Leaf(l.Weight))
		if l.Weight.Scale != nil {
			scales = append(scales, c.scaleOf(l.Weight)...)
		}
		if l.Bias != nil {
			biases = append(biases, c.Leaf(l.Bias))
		}
	}
	return slices.Concat(in, scales, biases)
}

// fusedHidden records the kernel of gate_up_swiglu. Where that saves gate(x) and up(x), its value is
// computed from them again, unless a whole layer is: that starts from its input.
func (m *MLP) fusedHidden(c *Context, x *autograd.Value) *autograd.Value {
	var again *autograd.Again
	if !m.gateUp.facts.Recompute && !c.again {
		again = hiddenAgain(x.Shape()[0], m.gateUp.facts.Intermediate)
		if c.leave == nil {
			c.cheap()
		}
	}
	y := m.gateUp.fusedAgain(c, x.Shape()[0], again, operands(c, m.in, x)...)[0]
	if again == nil {
		c.costly() // what is costly is kept
	}
	return y
}

// hiddenAgain computes y from the output gate_up_out of gate_up_swiglu.
func hiddenAgain(t, intermediate int) *autograd.Again {
	return &autograd.Again{Outputs: []int{1}, Writes: []int{0},
		Run: func(_ context.Context, in, out []core.Tensor) error {
			both, y := in[0].Float32s(), out[0].Float32s()
			eachRow(t, intermediate, func(r int) {
				row := both[2*r*intermediate:][:2*intermediate]
				simd.Stream(false).SwiGLU(y[r*intermediate:][:intermediate], row[:intermediate], row[intermediate:])
			})
			return nil
		}}
}
