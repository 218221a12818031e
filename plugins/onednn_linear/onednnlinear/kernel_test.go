package onednnlinear

import (
	"errors"
	"os"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednn"
)

// kernel returns one with the machine's library. Where there is none, and none is named, or the processor has no
// bfloat16, there is nothing to test.
func kernel(t *testing.T) *Kernel {
	t.Helper()
	l, err := onednn.Open()
	if err != nil && os.Getenv(onednn.EnvLibrary) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(l)
	if err != nil {
		t.Skip(err)
	}
	return k
}

func TestConforms(t *testing.T) {
	cases := append(kerneltest.Cases(core.Linear), kerneltest.Extremes(core.Linear)...)
	for _, f := range []core.Facts{
		{Dim: 64, Out: 96, Bias: true}, {Dim: 517, Out: 259}, {Dim: 96, Out: 130, Rank: 17, Scale: 2, Frozen: true},
	} {
		f.DType, f.WeightDType, f.Products = core.Float32, core.Float32, core.BFloat16
		cases = append(cases, kerneltest.CasesFor(core.Linear, f)...)
	}
	kerneltest.Run(t, kernel(t), cases)
}

func TestFactorsAsTheyAreStoredAreRefused(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 64, Out: 96}
	if err := kernel(t).Supports(f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
}
