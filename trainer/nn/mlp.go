package nn

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// MLP is down(silu(gate(x)) * up(x)). Its site offers swiglu.
type MLP struct {
	in   []*Linear // gate and up, or one layer that gives both, the gate first
	down *Linear
	*site
}

// NewMLP adds the parameters below path and the site.
func NewMLP(b *Builder, path, sitePath string, hidden, intermediate int, bias bool) *MLP {
	return &MLP{
		in: []*Linear{
			NewLinear(b, path+".gate_proj", hidden, intermediate, bias),
			NewLinear(b, path+".up_proj", hidden, intermediate, bias)},
		down: NewLinear(b, path+".down_proj", intermediate, hidden, bias),
		site: swigluSite(b, sitePath, intermediate, core.Separate),
	}
}

// NewPackedMLP does so for an MLP whose gate and up are one matrix, the gate first.
func NewPackedMLP(b *Builder, path, sitePath string, hidden, intermediate int) *MLP {
	return &MLP{
		in:   []*Linear{NewLinear(b, path+".gate_up_proj", hidden, 2*intermediate, false)},
		down: NewLinear(b, path+".down_proj", intermediate, hidden, false),
		site: swigluSite(b, sitePath, intermediate, core.Packed),
	}
}

func swigluSite(b *Builder, path string, intermediate int, layout core.Layout) *site {
	return b.site(path, core.SwiGLU, core.Facts{Intermediate: intermediate, Activation: "silu", Layout: layout})
}

// Forward records the block: x [T, D], y [T, D].
func (m *MLP) Forward(c *Context, x *autograd.Value) *autograd.Value {
	var in []*autograd.Value
	for _, l := range m.in {
		in = append(in, l.Forward(c, x))
	}
	c.costly()
	c.cheap()
	defer c.costly()
	return m.down.Forward(c, m.activate(c, in...))
}

// activate records silu(gate) * up: of gate and up [T, I], or of both in one [T, 2I].
func (m *MLP) activate(c *Context, in ...*autograd.Value) *autograd.Value {
	if m.kernel != nil {
		return m.fused(c, c.T(), in...)[0]
	}
	if m.facts.Layout == core.Packed {
		gate, up := halve(c.G, in[0])
		in = []*autograd.Value{gate, up}
	}
	return mul(c.G, silu(c.G, in[0]), in[1])
}
