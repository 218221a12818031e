package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures both passes on a size that models have.
func BenchmarkKernel(b *testing.B) {
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.GateUpSwiGLU, Tokens: 64, Seed: 1, Facts: core.Facts{
		DType: core.Float32, WeightDType: core.Float32, Dim: 512, Intermediate: 1024, Activation: "silu",
		Layout: core.Separate}}, 0)
}
