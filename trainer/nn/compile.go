package nn

import (
	"errors"

	"github.com/seed98097648/tune/trainer/autograd"
)

// Compiled is a model's graph for one size of batch, ready to run.
type Compiled struct {
	*autograd.Program
	Batch  *Batch
	leaves map[*Param]*autograd.Value
	use    *use // nil once closed
}

// Compile differentiates the loss with respect to every trainable parameter, unless
// forwardOnly, and plans the memory. Until Close, the model's sites cannot be patched. The context
// cannot be used again, whether it succeeds or not.
func (b *Body) Compile(c *Context, loss *autograd.Value, forwardOnly bool) (*Compiled, error) {
	wrt, err := b.trained(c, forwardOnly)
	if err != nil {
		return nil, err
	}
	program, err := c.G.Compile(loss, wrt...)
	if err != nil {
		return nil, err
	}
	b.use.graphs++
	return &Compiled{program, c.batch, c.leaves, b.use}, nil
}

// Size returns what Compile would come to, without making it. The context cannot be used
// again.
func (b *Body) Size(c *Context, loss *autograd.Value, forwardOnly bool) (autograd.Size, error) {
	wrt, err := b.trained(c, forwardOnly)
	if err != nil {
		return autograd.Size{}, err
	}
	return c.G.Size(loss, wrt...)
}

// trained returns the leaves to differentiate for. After an error the context holds no
// memory.
func (b *Body) trained(c *Context, forwardOnly bool) ([]*autograd.Value, error) {
	if c.err == nil && c.swaps >= 0 && c.swaps != b.use.swaps {
		c.err = errors.New("nn: the model was patched after its forward was recorded; record it again")
	}
	if c.err != nil {
		c.G.Release()
		return nil, c.err
	}
	var wrt []*autograd.Value
	if c.Sums != nil {
		c.G.Accumulate(c.Sums)
	}
	if c.Update != nil {
		c.G.Update(*c.Update)
	}
	if !forwardOnly {
		for _, p := range b.Trainable() {
			wrt = append(wrt, c.Leaf(p))
		}
	}
	return wrt, nil
}

// Gradient returns the gradient of a trainable parameter, valid until the next run.
func (c *Compiled) Gradient(p *Param) []float32 { return c.Grad(c.leaves[p]).Float32s() }

// Close gives the memory back and lets the model be patched again. Closing twice does
// nothing more.
func (c *Compiled) Close() {
	if c.use == nil {
		return
	}
	c.Program.Close()
	c.use.graphs--
	c.use = nil
}
