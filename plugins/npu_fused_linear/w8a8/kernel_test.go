package w8a8

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.LinearW8A8))
}

// TestAgreesWithPublishedCode to the bit, which the recordings ask for.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

// TestLargeCalls has products that are shared out among threads, and rows that end inside every block.
func TestLargeCalls(t *testing.T) {
	for _, scaling := range []core.Scaling{core.StaticScaling, core.DynamicScaling} {
		f := core.Facts{DType: core.Float32, Dim: 517, Out: 259, Scaling: scaling, Bias: scaling == core.DynamicScaling}
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{{Name: string(scaling), Op: core.LinearW8A8, Tokens: 131, Seed: 1,
			Facts: f}})
	}
}

func TestThereIsNoBackwardPass(t *testing.T) {
	if err := new(Kernel).Backward(t.Context(), &core.Call{Op: core.LinearW8A8}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}
