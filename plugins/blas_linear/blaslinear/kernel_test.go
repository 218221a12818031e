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
	kerneltest.Run(t, New(open(t)), kerneltest.Cases(core.Linear))
}
