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
	kerneltest.Run(t, kernel{}, kerneltest.Cases(core.AttentionPre))
}

// TestRefusesOtherStorage: what the kernel cannot do it says, and is not placed there.
func TestRefusesOtherStorage(t *testing.T) {
	for _, d := range []core.DType{core.BFloat16, core.Float16} {
		f := use("", func(f *core.Facts) { f.DType = d }).Facts
		if err := (kernel{}).Supports(f); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%s: error %v, want one that wraps ErrNotSupported", d, err)
		}
	}
}
