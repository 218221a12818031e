package kerneltest_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestReferencesAreClose in float32 and float64: whatever is wrong with one of them alone widens what kernels may be
// off by. Where a norm has one element, a gradient is what is left of terms that cancel.
func TestReferencesAreClose(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			cases := slices.DeleteFunc(kerneltest.Cases(op), func(c kerneltest.Case) bool {
				return c.Op == core.RMSNorm && c.Facts.Dim == 1
			})
			if err := kerneltest.CheckSingle(op, cases, 0x1p-11); err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}

// TestReferencesPassSizesAndExtremes compares the references in the cases of Extremes, and in those of Sizes that
// nothing else of the gate does. That they write all outputs and nothing else, and the same bits again,
// TestReferencesPass sees.
func TestReferencesPassSizesAndExtremes(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			sizes := slices.DeleteFunc(kerneltest.Sizes(op), verifiedOnly)
			err := errors.Join(kerneltest.CheckSingle(op, kerneltest.Extremes(op), 1),
				kerneltest.CheckSingle(op, sizes, 0x1p-11))
			if err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}

// verifiedOnly are cases in which the references meet whenever a plugin of the project is verified in full, as all are
// in the gate: they compute, and are finite in the same places, or a right kernel fails. But the project has no kernel
// of GELU by itself, and needs a processor with products in bfloat16 for these; and that both references choose the
// same experts is asked of no plugin.
func verifiedOnly(c kerneltest.Case) bool {
	return c.Op != core.MoEGate && c.Facts.Activation != core.GELUTanh && c.Facts.Products == core.InvalidDType
}
