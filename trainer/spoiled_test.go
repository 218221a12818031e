package trainer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
)

// adder is a kernel of linear whose calls that add are counted, and that one of them fails as that of a
// process does that has died, after a part of the work. A silent one does not say that it can add.
type adder struct {
	core.Kernel
	silent bool
	fails  int  // the call that fails, counted from 1; 0 for none
	always bool // as do all later ones
	adding int  // calls so far
}

func (k *adder) Info() core.Info {
	i := k.Kernel.Info()
	if k.silent {
		i.Adds = nil
	}
	return i
}

func (k *adder) Backward(ctx context.Context, c *core.Call) error {
	if !c.Adds() {
		return k.Kernel.Backward(ctx, c)
	}
	if k.adding++; k.adding == k.fails || k.always && k.adding > k.fails {
		c.Output("dweight").Float32s()[0] += 3
		return fmt.Errorf("%w: %w", core.ErrSpoiled, core.ErrPluginExited)
	}
	return k.Kernel.Backward(ctx, c)
}

// TestSumsHaveTheSameBitsWhoeverAdds has linear layers patched, and three batches a step: the kernel adds
// their gradients, or the host does, or the kernel's process dies while it adds, in the first of the calls that
// do or in a later one.
func TestSumsHaveTheSameBitsWhoeverAdds(t *testing.T) {
	run := func(k *adder, check *crosscheck.Checker) *run {
		k.Kernel = new(linear.Kernel)
		reg := core.NewRegistry()
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
		patch := func(m *models.Model) {
			if _, err := core.ApplyKernel(t.Context(), linear.Name, m, reg); err != nil {
				t.Fatal(err)
			}
		}
		r := newRun(t, autograd.Heap{}, patch, func(c *trainer.EngineConfig) { c.Accumulate, c.Check = 3, check })
		return r.steps(4)
	}
	want, byKernel := run(&adder{silent: true}, nil), &adder{}
	sameBits(t, run(byKernel, nil), want)
	if byKernel.adding == 0 {
		t.Error("the kernel was never told to add")
	}
	for _, fails := range []int{1, 2 + byKernel.adding/2} {
		sameBits(t, run(&adder{fails: fails}, nil), want)
	}
	sameBits(t, run(&adder{}, crosscheck.New(1)), want)
	// A step that is made again has nobody add in place, and the next one has again.
	never := &adder{fails: 1, always: true}
	if sameBits(t, run(never, nil), want); never.adding != 4 {
		t.Errorf("a kernel that dies whenever it adds was told to add %d times in 4 steps", never.adding)
	}
}
