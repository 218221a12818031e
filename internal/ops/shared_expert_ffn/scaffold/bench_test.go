package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures it on a size that models have.
func BenchmarkKernel(b *testing.B) {
	f := core.Facts{DType: core.Float32, Dim: 256, Intermediate: 512, Activation: "silu",
		Layout: core.Separate}
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.SharedExpertFFN, Tokens: 64, Seed: 1, Facts: f},
		6*64*256*512)
}
