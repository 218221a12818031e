package kerneltest_test

import (
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestReferencesPassSizesAndExtremes compares the references in the cases of Extremes, and in those of Sizes that
// nothing else of the gate does. That they write all outputs and nothing else, and the same bits again,
// TestReferencesPass sees.
func TestReferencesPassSizesAndExtremes(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			sizes := slices.DeleteFunc(kerneltest.Sizes(op), verifiedOnly)
			if err := kerneltest.CheckSingle(op, append(kerneltest.Extremes(op), sizes...)); err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}

// verifiedOnly are sizes in which the references meet whenever a plugin of the project is verified in full, as all are
// in the gate: they compute, and are finite in the same places, or a right kernel fails. How far they are apart, the
// kit takes for granted. But the project has no kernel of GELU by itself, and needs a processor with products in
// bfloat16 for these; and that both references choose the same experts is asked of no plugin.
func verifiedOnly(c kerneltest.Case) bool {
	return c.Op != core.MoEGate && c.Facts.Activation != core.GELUTanh && c.Facts.Products == core.InvalidDType
}
