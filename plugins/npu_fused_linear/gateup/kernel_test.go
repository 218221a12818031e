package gateup

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.GateUpSwiGLU))
}

func use(tokens int, f core.Facts) kerneltest.Case {
	f.DType, f.WeightDType, f.Activation = core.Float32, core.Float32, "silu"
	if f.Layout == "" {
		f.Layout = core.Separate
	}
	return kerneltest.Case{Op: core.GateUpSwiGLU, Tokens: tokens, Seed: 1, Facts: f}
}

// TestLargeCalls has products that are shared out among threads, and the first is large enough for tiles.
func TestLargeCalls(t *testing.T) {
	for i, f := range []core.Facts{
		{Dim: 258, Intermediate: 515, Recompute: true},
		{Dim: 259, Intermediate: 131, Layout: core.Packed},
	} {
		t.Run(f.String(), func(t *testing.T) {
			c := use([]int{389, 131}[i], f)
			kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
			simdtest.SameBits(t, new(Kernel), c)
		})
	}
}

// TestTokensThatSpanBlocks has some in a second block, whose gradients are added to those of the first.
func TestTokensThatSpanBlocks(t *testing.T) {
	for _, recompute := range []bool{false, true} {
		c := use(blockRows+100, core.Facts{Dim: 6, Intermediate: 5, Recompute: recompute})
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
		simdtest.SameBits(t, new(Kernel), c)
	}
}

// TestBitsDoNotDependOnWhatIsKept: memory may be short, and a process that was started again has
// nothing.
func TestBitsDoNotDependOnWhatIsKept(t *testing.T) {
	for _, w := range []core.DType{core.Float32, core.Int8} {
		for _, layout := range []core.Layout{core.Separate, core.Packed} {
			c := use(140, core.Facts{Dim: 259, Intermediate: 263, Frozen: true, Layout: layout})
			c.Facts.WeightDType = w
			want := 2 * (vector.KeptBytes(259, 263, w) + vector.KeptBytes(263, 259, w))
			if layout == core.Packed {
				want = vector.KeptBytes(259, 2*263, w) + vector.KeptBytes(2*263, 259, w)
			}
			if held := simdtest.SameBitsKept(t, new(Kernel), c); held != want {
				t.Errorf("weights in %s, %s: %d bytes are kept, want %d", w, layout, held, want)
			}
		}
	}
}

func BenchmarkGateUp(b *testing.B) {
	for _, recompute := range []bool{false, true} {
		f := core.Facts{Dim: 512, Intermediate: 1536, Recompute: recompute}
		b.Run(f.String(), func(b *testing.B) { kerneltest.Benchmark(b, new(Kernel), use(1024, f), 0) })
	}
}
