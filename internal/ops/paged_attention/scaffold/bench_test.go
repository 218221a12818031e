package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures it on a size that models have.
func BenchmarkKernel(b *testing.B) {
	f := core.Facts{DType: core.Float32, HeadDim: 64, Heads: 8, KVHeads: 4, BlockSize: 16, Scale: 0.125}
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.PagedAttention, Tokens: 16, Positions: 32, Seed: 1,
		Facts: f}, 0)
}
