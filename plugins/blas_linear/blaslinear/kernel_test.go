package blaslinear

import (
	"os"
	"strings"
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

// TestSummariesAreShortEnough for a host, whatever a library says of itself, wherever it lies.
func TestSummariesAreShortEnough(t *testing.T) {
	l := &blas.Library{Name: "BLAS", Version: strings.Repeat("word ", 40), Path: strings.Repeat("/folder", 40)}
	for _, k := range Kernels(l) {
		if n := len(k.Info().Summary); n > 200 {
			t.Errorf("the summary of %s has %d bytes, want at most 200", k.Info().Op, n)
		}
	}
}

// TestOpsConformWithoutALibrary: what is new here is checked where no BLAS is, too.
func TestOpsConformWithoutALibrary(t *testing.T) {
	k := kernel{new(attention), new(attention).Info()}
	kerneltest.Run(t, k, append(kerneltest.Cases(core.Attention), kerneltest.Sizes(core.Attention)...))
}
