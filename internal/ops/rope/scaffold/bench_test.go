package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures both passes on a size that models have.
func BenchmarkKernel(b *testing.B) {
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.RoPE, Tokens: 256, Positions: 256, Seed: 1,
		Facts: core.Facts{
			DType: core.Float32, Pairing: core.Half, RotaryDim: 128, HeadDim: 128, Heads: 16, KVHeads: 8}}, 0)
}
