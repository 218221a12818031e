package nn

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// MLP is down(act(gate(x)) * up(x)), act being silu or another activation of swiglu. Its site offers swiglu; that and
// what is before it have one together, or, where all multiplies int8, the whole block.
type MLP struct {
	in     []*Linear // gate and up, or one layer that gives both, the gate first
	gateUp *site     // offers gate_up_swiglu; nil where gate and up have a bias, and within block
	block  *site     // offers shared_expert_ffn; nil unless every layer's activations get a scale for each token
	down   *Linear
	*site
}

// NewMLP adds the parameters below path and the site.
func NewMLP(b *Builder, path, sitePath string, hidden, intermediate int, bias bool) *MLP {
	return newSeparateMLP(b, path, sitePath, swigluFacts(intermediate, core.Separate), hidden, bias)
}

// NewPackedMLP does so for an MLP whose gate and up are one matrix, the gate first.
func NewPackedMLP(b *Builder, path, sitePath string, hidden, intermediate int) *MLP {
	return newMLP(b, path, sitePath, false, swigluFacts(intermediate, core.Packed), hidden, func() []*Linear {
		return []*Linear{NewLinear(b, path+".gate_up_proj", hidden, 2*intermediate, false)}
	})
}

// NewGELUMLP does so for an MLP without biases whose activation is core.GELUTanh.
func NewGELUMLP(b *Builder, path, sitePath string, hidden, intermediate int) *MLP {
	facts := swigluFacts(intermediate, core.Separate)
	facts.Activation = core.GELUTanh
	return newSeparateMLP(b, path, sitePath, facts, hidden, false)
}

func newSeparateMLP(b *Builder, path, sitePath string, swiglu core.Facts, hidden int, bias bool) *MLP {
	return newMLP(b, path, sitePath, bias, swiglu, hidden, func() []*Linear {
		return []*Linear{NewLinear(b, path+".gate_proj", hidden, swiglu.Intermediate, bias),
			NewLinear(b, path+".up_proj", hidden, swiglu.Intermediate, bias)}
	})
}

func swigluFacts(intermediate int, layout core.Layout) core.Facts {
	return core.Facts{Intermediate: intermediate, Activation: core.SiLU, Layout: layout}
}

// newMLP builds the layers before swiglu with in. There is no larger site with a bias, which
// gate_up_swiglu does not have.
func newMLP(b *Builder, path, sitePath string, bias bool, swiglu core.Facts, hidden int, in func() []*Linear) *MLP {
	m := &MLP{}
	if m.block = b.int8Block(path, sitePath, swiglu, hidden, bias); m.block != nil || bias {
		m.in = in()
	} else {
		facts := swiglu
		facts.Dim = hidden
		m.gateUp = b.group(sitePath+".gate_up", core.GateUpSwiGLU, facts, func() []*Linear {
			m.in = in()
			return m.in
		})
		if swiglu.Activation != core.SiLU {
			b.stayPlain(m.gateUp, "its activation is "+swiglu.Activation+", which gate_up_swiglu has not")
		}
	}
	m.down = NewLinear(b, path+".down_proj", swiglu.Intermediate, hidden, bias)
	m.site = b.site(sitePath, core.SwiGLU, swiglu)
	switch {
	case m.block != nil:
		siteOf(b.sites, m.site).Within = m.block.path
		for _, l := range m.layers() {
			siteOf(b.sites, l.site).Within = m.block.path
		}
	case m.gateUp != nil:
		siteOf(b.sites, m.site).Within = m.gateUp.path
	}
	return m
}

// Forward records the block: x [T, D], y [T, D].
func (m *MLP) Forward(c *Context, x *autograd.Value) *autograd.Value {
	defer c.costly()
	if m.block.patched() {
		return m.block.fused(c, x.Shape()[0], operands(c, m.layers(), x)...)[0]
	}
	return m.down.Forward(c, m.hidden(c, x))
}

// layers are those that multiply, in order.
func (m *MLP) layers() []*Linear { return append(slices.Clone(m.in), m.down) }

// hidden records act(gate(x)) * up(x). It is cheap from gate(x) and up(x) on, which are kept for that.
func (m *MLP) hidden(c *Context, x *autograd.Value) *autograd.Value {
	if m.gateUp.patched() {
		return m.fusedHidden(c, x)
	}
	in := forwardAll(c, nil, m.in, x)
	c.costly()
	c.cheap()
	return m.activate(c, in...)
}

// activate records act(gate) * up: of gate and up [T, I], or of both in one [T, 2I].
func (m *MLP) activate(c *Context, in ...*autograd.Value) *autograd.Value {
	if m.kernel != nil {
		return m.fused(c, c.T(), in...)[0]
	}
	if m.facts.Layout == core.Packed {
		gate, up := halve(c.G, in[0])
		in = []*autograd.Value{gate, up}
	}
	act := silu
	if m.facts.Activation == core.GELUTanh {
		act = geluTanh
	}
	return mul(c.G, act(c.G, in[0]), in[1])
}
