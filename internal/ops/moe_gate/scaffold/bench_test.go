package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures both passes on a size that models have.
func BenchmarkKernel(b *testing.B) {
	kerneltest.Benchmark(b, kernel{}, kerneltest.Case{Op: core.MoEGate, Tokens: 512, Seed: 1, Facts: core.Facts{
		DType: core.Float32, Experts: 128, TopK: 8, Scoring: core.ScoringSoftmax,
		Groups: 1, TopGroups: 1, Normalize: true, Scale: 1}}, 0)
}
