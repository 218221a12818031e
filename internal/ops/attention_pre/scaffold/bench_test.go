package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// BenchmarkKernel measures it on a size that models have.
func BenchmarkKernel(b *testing.B) {
	c := use("", func(f *core.Facts) {
		f.Dim, f.HeadDim, f.RotaryDim, f.Heads, f.KVHeads, f.QKNorm = 256, 32, 32, 8, 4, true
	})
	c.Tokens = 16
	kerneltest.Benchmark(b, kernel{}, c, 2*16*256*16*32)
}
