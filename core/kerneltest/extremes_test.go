package kerneltest_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestReferencesPassSizesAndExtremes compares the references in the cases of Sizes and Extremes. That they write all
// outputs and nothing else, and the same bits again, TestReferencesPass sees.
func TestReferencesPassSizesAndExtremes(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			if err := kerneltest.CheckSingle(op, append(kerneltest.Sizes(op), kerneltest.Extremes(op)...)); err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}
