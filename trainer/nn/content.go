package nn

import "github.com/seed98097648/tune/core"

// Changed says that the parameter has another content from now on, and that this stays until
// Changed is called again: graphs give kernels a new number for it, under which they may keep
// what they make of it; see core.Tensor.Content. A parameter that was never said to be changed
// has none, and may be written at any time. Set, and what reads files, call it where it matters.
func (p *Param) Changed() {
	p.content = core.NewContent()
	if p.Scale != nil {
		p.scaleContent, p.absmaxContent = core.NewContent(), core.NewContent()
	}
}

// Written is Changed for a parameter that has a number; one that has none needs none.
func (p *Param) Written() {
	if p.content != 0 {
		p.Changed()
	}
}
