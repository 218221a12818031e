package kernel

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestConforms runs the conformance kit, which knows every edge case of the op. Cases
// that Supports refuses are skipped.
func TestConforms(t *testing.T) {
	kerneltest.Run(t, kernel{}, kerneltest.Cases(core.ReshapeAndCache))
}

// TestRefusesOtherStorage: what the kernel cannot do it says, and is not placed there.
func TestRefusesOtherStorage(t *testing.T) {
	f := core.Facts{DType: core.Float64, HeadDim: 8, KVHeads: 2, BlockSize: 4}
	if err := (kernel{}).Supports(f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}
