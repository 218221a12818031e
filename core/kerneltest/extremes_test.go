package kerneltest_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestReferencesPassSizesAndExtremes runs the cases of Examine on the reference in float32.
func TestReferencesPassSizesAndExtremes(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			if err := kerneltest.Check(reference.Single(op),
				append(kerneltest.Sizes(op), kerneltest.Extremes(op)...)); err != nil {
				t.Errorf("%.3000v", err)
			}
		})
	}
}
