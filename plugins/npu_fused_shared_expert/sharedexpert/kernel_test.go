package sharedexpert

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.SharedExpertFFN))
}

// TestAgreesWithPublishedCode: sums of whole numbers to the bit, of which y is made.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

// TestLargeCalls has products that are shared out among threads, and rows that end inside every block.
func TestLargeCalls(t *testing.T) {
	for _, layout := range []core.Layout{core.Separate, core.Packed} {
		f := core.Facts{DType: core.Float32, Dim: 517, Intermediate: 259, Activation: "silu", Layout: layout}
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{{Name: string(layout), Op: core.SharedExpertFFN, Tokens: 131,
			Seed:  1,
			Facts: f}})
	}
}

func TestRefusesOtherActivations(t *testing.T) {
	f := core.Facts{DType: core.Float32, Dim: 8, Intermediate: 8, Activation: "gelu", Layout: core.Packed}
	if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}

func TestThereIsNoBackwardPass(t *testing.T) {
	err := new(Kernel).Backward(t.Context(), &core.Call{Op: core.SharedExpertFFN})
	if !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}
