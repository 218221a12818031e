package qkv

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.QKV))
}

func use(tokens int, f core.Facts) kerneltest.Case {
	f.DType, f.WeightDType = core.Float32, core.Float32
	return kerneltest.Case{Op: core.QKV, Tokens: tokens, Seed: 1, Facts: f}
}

// TestLargeCalls has products that are shared out among threads, and the first is large enough for tiles.
func TestLargeCalls(t *testing.T) {
	for i, f := range []core.Facts{
		{Dim: 259, HeadDim: 37, Heads: 14, KVHeads: 7, Bias: true},
		{Dim: 517, HeadDim: 37, Heads: 7, KVHeads: 7, Frozen: true},
	} {
		t.Run(f.String(), func(t *testing.T) {
			c := use([]int{397, 131}[i], f)
			kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
			simdtest.SameBits(t, new(Kernel), c)
		})
	}
}

// TestBitsDoNotDependOnWhatIsKept: memory may be short, and a process that was started again has
// nothing.
func TestBitsDoNotDependOnWhatIsKept(t *testing.T) {
	for _, w := range []core.DType{core.Float32, core.Int8} {
		c := use(140, core.Facts{Dim: 259, HeadDim: 43, Heads: 7, KVHeads: 6, Frozen: true})
		c.Facts.WeightDType = w
		want := int64(0)
		for _, heads := range []int{7, 6, 6} {
			want += vector.KeptBytes(259, 43*heads, w) + vector.KeptBytes(43*heads, 259, w)
		}
		if held := simdtest.SameBitsKept(t, new(Kernel), c); held != want {
			t.Errorf("weights in %s: %d bytes are kept, want %d", w, held, want)
		}
	}
}

func BenchmarkQKV(b *testing.B) {
	kerneltest.Benchmark(b, new(Kernel), use(1024, core.Facts{Dim: 512, HeadDim: 64, Heads: 8, KVHeads: 4}), 0)
}
