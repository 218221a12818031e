package blaslinear

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
)

func open(t *testing.T) *blas.Library {
	t.Helper()
	l, err := blas.Open()
	if err != nil {
		t.Skip(err)
	}
	t.Log(l)
	return l
}

func TestConforms(t *testing.T) {
	kerneltest.Run(t, New(open(t)), kerneltest.Cases(core.Linear))
}
