package blaslinear

import (
	"os"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
)

func open(t *testing.T) *blas.Library {
	t.Helper()
	l, err := blas.Open()
	if err != nil && os.Getenv(blas.EnvLibrary) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l)
	return l
}

func TestConforms(t *testing.T) {
	for _, k := range Kernels(open(t)) {
		t.Run(string(k.Info().Op), func(t *testing.T) { kerneltest.Run(t, k, kerneltest.Cases(k.Info().Op)) })
	}
}

// TestOpsConformWithoutALibrary: what is new here is checked where no BLAS is, too.
func TestOpsConformWithoutALibrary(t *testing.T) {
	k := kernel{new(attention), new(attention).Info()}
	kerneltest.Run(t, k, append(kerneltest.Cases(core.Attention), kerneltest.Sizes(core.Attention)...))
}
