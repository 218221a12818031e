package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// window is the memory of the keys [B*S, 2] of a sliding window: each token sees itself
// and at most size-1 tokens before it, of those that it sees without a window.
type window struct {
	size int
	keys []int32
}

// fill narrows the keys that tokens see without the window. A token's distance is that
// of its place in the row, whatever its position is, as in Hugging Face's masks.
func (w window) fill(keys []int32) {
	for t := range len(keys) / 2 {
		first, end := keys[2*t], keys[2*t+1]
		w.keys[2*t] = min(max(first, int32(t-w.size+1)), end)
		w.keys[2*t+1] = end
	}
}

// keysWithin returns the keys of layers with a sliding window; 0 means none.
func (c *Context) keysWithin(size int) *autograd.Value {
	if size == 0 || size >= c.S {
		return c.keys
	}
	if v, ok := c.windows[size]; ok {
		return v
	}
	keys := core.Tensor{DType: core.Int32, Shape: core.Shape{c.T(), 2}}
	var err error
	if keys.Data, err = c.G.Alloc(8 * c.T()); err != nil {
		c.fail(fmt.Errorf("nn: keys of a sliding window of %d tokens: %w", size, err))
		return c.keys
	}
	w := window{size, keys.Int32s()}
	w.fill(c.batch.Keys)
	c.batch.windows = append(c.batch.windows, w)
	c.windows[size] = c.G.Input(fmt.Sprintf("keys.%d", size), keys)
	return c.windows[size]
}
