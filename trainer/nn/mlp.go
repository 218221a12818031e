package nn

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// MLP is down(silu(gate(x)) * up(x)). Its site offers swiglu.
type MLP struct {
	gate, up, down *Linear
	*site
}

// NewMLP adds the parameters below path and the site.
func NewMLP(b *Builder, path, sitePath string, hidden, intermediate int, bias bool) *MLP {
	return &MLP{
		gate: NewLinear(b, path+".gate_proj", hidden, intermediate, bias),
		up:   NewLinear(b, path+".up_proj", hidden, intermediate, bias),
		down: NewLinear(b, path+".down_proj", intermediate, hidden, bias),
		site: b.site(sitePath, core.SwiGLU, core.Facts{Intermediate: intermediate, Activation: "silu", Layout: core.Separate}),
	}
}

// Forward records the block: x [T, D], y [T, D].
func (m *MLP) Forward(c *Context, x *autograd.Value) *autograd.Value {
	gate, up := m.gate.Forward(c, x), m.up.Forward(c, x)
	c.costly()
	c.cheap()
	defer c.costly()
	return m.down.Forward(c, m.activate(c, gate, up))
}

// activate records silu(gate) * up.
func (m *MLP) activate(c *Context, gate, up *autograd.Value) *autograd.Value {
	if m.kernel != nil {
		return m.fused(c, c.T(), gate, up)[0]
	}
	return mul(c.G, silu(c.G, gate), up)
}
