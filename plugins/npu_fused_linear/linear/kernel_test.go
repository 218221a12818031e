package linear

import (
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.Linear))
}

func use(tokens int, f core.Facts) kerneltest.Case {
	f.DType, f.WeightDType = core.Float32, core.Float32
	return kerneltest.Case{Op: core.Linear, Tokens: tokens, Seed: 1, Facts: f}
}

// TestLargeCalls has products that are shared out among threads, and rows that end inside
// every block.
func TestLargeCalls(t *testing.T) {
	for _, f := range []core.Facts{
		{Dim: 259, Out: 517, Bias: true},
		{Dim: 259, Out: 517, Rank: 17, Scale: 2},
		{Dim: 517, Out: 259, Rank: 17, Scale: 2, Frozen: true},
	} {
		t.Run(f.String(), func(t *testing.T) {
			c := use(131, f)
			kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
			simdtest.SameBits(t, new(Kernel), c)
		})
	}
}

// TestAddsToWholeSums has as many tokens as a kernel that adds can have, and one more.
func TestAddsToWholeSums(t *testing.T) {
	for _, tokens := range []int{512, 513} {
		c := use(tokens, core.Facts{Dim: 130, Out: 259})
		c.Name = fmt.Sprintf("%d tokens", tokens)
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
		if can := new(Kernel).Info().CanAdd("dweight", tokens); can != (tokens == 512) {
			t.Errorf("with %d tokens it says that it can add: %t", tokens, can)
		}
	}
}

// TestBitsDoNotDependOnWhatIsKept: memory may be short, and a process that was started again has
// nothing.
func TestBitsDoNotDependOnWhatIsKept(t *testing.T) {
	for _, w := range []core.DType{core.Float32, core.BFloat16, core.Int8} {
		c := use(140, core.Facts{Dim: 270, Out: 330, Frozen: true, Rank: 5, Scale: 2})
		c.Facts.WeightDType = w
		want := vector.KeptBytes(270, 330, w) + vector.KeptBytes(330, 270, w)
		if held := simdtest.SameBitsKept(t, new(Kernel), c); held != want {
			t.Errorf("weight in %s: %d bytes are kept, want %d", w, held, want)
		}
	}
}

func BenchmarkLinear(b *testing.B) {
	for _, f := range []core.Facts{
		{Dim: 1024, Out: 3072},
		{Dim: 1024, Out: 3072, Rank: 16, Scale: 2, Frozen: true},
	} {
		b.Run(fmt.Sprintf("rank%d", f.Rank), func(b *testing.B) {
			kerneltest.Benchmark(b, new(Kernel), use(1024, f), 0)
		})
	}
}
