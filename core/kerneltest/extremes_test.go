package kerneltest_test

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// once computes a call that comes twice in a row the first time only.
type once struct {
	core.Kernel
	last *core.Call
}

func (k *once) Forward(ctx context.Context, c *core.Call) error  { return k.run(ctx, c) }
func (k *once) Backward(ctx context.Context, c *core.Call) error { return k.run(ctx, c) }

func (k *once) run(ctx context.Context, c *core.Call) error {
	same := func(a, b core.Tensor) bool { return unsafe.SliceData(a.Data) == unsafe.SliceData(b.Data) }
	if l := k.last; l == nil || l.Pass != c.Pass || l.Facts != c.Facts || !slices.EqualFunc(l.In, c.In, same) {
		k.last = c
		return core.Run(ctx, k.Kernel, c)
	}
	for i, x := range c.Out {
		copy(x.Data, k.last.Out[i].Data)
	}
	return nil
}

// TestReferencesPassSizesAndExtremes runs the cases of Examine on the reference in float32. That it gives the same
// bits in the second of two calls, TestReferencesPass sees.
func TestReferencesPassSizesAndExtremes(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			if err := kerneltest.Check(&once{Kernel: reference.Single(op)},
				append(kerneltest.Sizes(op), kerneltest.Extremes(op)...)); err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}
