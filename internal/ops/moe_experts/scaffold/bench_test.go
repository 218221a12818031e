package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures both passes on a size that models have.
func BenchmarkKernel(b *testing.B) {
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.MoEExperts, Tokens: 64, Seed: 1, Facts: core.Facts{
		DType: core.Float32, WeightDType: core.Float32, Dim: 256, Intermediate: 128, Activation: "silu",
		Layout: core.Packed, Experts: 16, TopK: 4, Routing: core.RoutingNormalized}}, 0)
}
