package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures it on a size that models have.
func BenchmarkKernel(b *testing.B) {
	f := core.Facts{DType: core.Float32, HeadDim: 128, KVHeads: 8, BlockSize: 16}
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.ReshapeAndCache, Tokens: 64, Positions: 16, Seed: 1,
		Facts: f}, 0)
}
