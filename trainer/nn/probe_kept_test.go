package nn

import (
	"context"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
)

// namingKernel is the reference, and notes under which numbers it gets the content of an input.
type namingKernel struct {
	core.Kernel
	input string
	named []uint64
}

func (k *namingKernel) Forward(ctx context.Context, c *core.Call) error {
	k.named = append(k.named, c.Input(k.input).Content)
	return k.Kernel.Forward(ctx, c)
}

func (k *namingKernel) Backward(ctx context.Context, c *core.Call) error {
	k.named = append(k.named, c.Input(k.input).Content)
	return k.Kernel.Backward(ctx, c)
}

// TestFrozenWeightsOfAProbeStayAsTheyAre, as in a run, or what a kernel gains by keeping would not be seen;
// what is trained has no number, nor has anything where a model is used, so that kernels keep nothing there.
func TestFrozenWeightsOfAProbeStayAsTheyAre(t *testing.T) {
	for _, tt := range []struct{ frozen, inference bool }{{true, false}, {false, false}, {true, true}} {
		site := probedSites(t)["attn.qkv"]
		site.Facts.Frozen = tt.frozen
		k := &namingKernel{Kernel: reference.Kernel(site.Op), input: "k_weight"}
		p, err := NewProbe(autograd.Heap{}, site, k, 1, 5, 5, tt.inference)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 2 {
			if _, _, err := p.Run(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		calls := 4
		if tt.inference {
			calls = 2
		}
		named := tt.frozen && !tt.inference
		if len(k.named) != calls || len(slices.Compact(k.named)) != 1 || k.named[0] != 0 != named {
			t.Errorf("%+v: two rounds have the numbers %d", tt, k.named)
		}
	}
}
