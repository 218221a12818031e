package simd

import (
	"os"
	"testing"
)

// TestVariantIsTheOneThatTheMachineIsFor compares with the name in TUNE_TEST_VARIANT: who runs
// the tests on an emulated processor says there what it has to find.
func TestVariantIsTheOneThatTheMachineIsFor(t *testing.T) {
	want := os.Getenv("TUNE_TEST_VARIANT")
	if want == "" {
		t.Skip("TUNE_TEST_VARIANT does not say which")
	}
	if Variant() != want {
		t.Errorf("the variant is %s, want %s", Variant(), want)
	}
}
