package trainer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
)

// TestWeightsInBFloat16AreTrainedAndSavedSo compares the losses with those of float32 weights, plain and with kernels.
func TestWeightsInBFloat16AreTrainedAndSavedSo(t *testing.T) {
	reg, mem := plugintest.Scan(t, transport.Options{}), plugintest.Memory(t)
	for _, kernels := range []string{"none", "all"} {
		t.Run(kernels, func(t *testing.T) {
			wide, half := long(t, ""), long(t, filepath.Join(t.TempDir(), "out"))
			wide.Config.Checkpoints.SaveEvery, half.Config.Checkpoints.SaveEvery = 0, 0
			wide.Config.Steps, half.Config.Steps = 30, 30
			wider(t, wide, autograd.Heap{}, "")
			wider(t, half, mem, "")
			narrowed(t, half, mem)
			half.Config.Kernels, half.Registry = kernels, reg
			want, got := run1(t, wide), run1(t, half)
			if len(got.Wrong) > 0 {
				t.Errorf("kernels are found wrong: %v", got.Wrong)
			}
			if got.After.Loss > want.Before.Loss-0.9*(want.Before.Loss-want.After.Loss) {
				t.Errorf("the loss goes from %g to %g, with float32 from %g to %g", got.Before.Loss, got.After.Loss,
					want.Before.Loss, want.After.Loss)
			}
			f, err := checkpoint.Open(filepath.Join(got.Out, checkpoint.SingleFile))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, name := range []string{"model.embed_tokens.weight", "model.norm.weight", "model.layers.1.mlp.experts.0.up_proj.weight"} {
				if dtype, _, _ := f.Lookup(name); dtype != core.BFloat16 {
					t.Errorf("%s is saved as %s", name, dtype)
				}
			}
		})
	}
}

func TestAdaptersHaveNoWeightsInBFloat16(t *testing.T) {
	c := trainer.Default()
	c.LoRA, c.Optimizer.Weights = lora.Config{Rank: 4}, trainer.BF16
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "adapters are trained") {
		t.Errorf("error %v", err)
	}
	c.LoRA, c.Optimizer.Weights = lora.Config{}, "int4"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `trainer.Optimizer.Weights is "int4"; it takes float32, bf16`) {
		t.Errorf("error %v", err)
	}
}
