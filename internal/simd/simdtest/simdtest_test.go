package simdtest_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestReferenceDoesNotDependOnThreads(t *testing.T) {
	f := core.Facts{DType: core.Float32, Intermediate: 3, Activation: "silu", Layout: core.Packed}
	simdtest.SameBits(t, reference.Kernel(core.SwiGLU), kerneltest.CasesFor(core.SwiGLU, f)[0])
}
