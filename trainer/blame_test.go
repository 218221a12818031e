package trainer_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// spoiler is the reference, but for one NaN.
type spoiler struct{ core.Kernel }

// Info implements core.Kernel.
func (s spoiler) Info() core.Info {
	info := s.Kernel.Info()
	info.Name = "spoiler"
	return info
}

// Forward implements core.Kernel.
func (s spoiler) Forward(ctx context.Context, c *core.Call) error {
	err := s.Kernel.Forward(ctx, c)
	c.Out[0].Float32s()[0] = float32(math.NaN())
	return err
}

// A kernel that returns NaN is what the error names: not the learning rate, nor the weights.
func TestAKernelThatReturnsNaNIsNamed(t *testing.T) {
	m, err := models.New([]byte(tiny), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	for _, s := range m.Sites() {
		if s.Op == core.SwiGLU {
			if err := s.Hook.Swap(spoiler{reference.Single(s.Op)}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: 2, Seq: 17, Optim: optim.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for b := range data.Batches(rows(t, 17)[:2], 2) {
		_, err := e.Step(t.Context(), []data.Batch{b}, 1e-3)
		const want = "of finite weights: kernel spoiler computes that; check it with tune kernels verify spoiler"
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "learning rate") {
			t.Errorf("error %v, want %q", err, want)
		}
		break
	}
}
