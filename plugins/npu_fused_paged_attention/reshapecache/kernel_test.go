package reshapecache

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, Kernel{}, kerneltest.Cases(core.ReshapeAndCache))
}

// TestAgreesWithPublishedCode to the bit, which the recordings ask for.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, Kernel{}, core.Float32, 0x1p-20)
}

func TestThereIsNoBackwardPass(t *testing.T) {
	err := Kernel{}.Backward(t.Context(), &core.Call{Op: core.ReshapeAndCache})
	if !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}

func BenchmarkReshapeAndCache(b *testing.B) {
	c := kerneltest.Case{Op: core.ReshapeAndCache, Tokens: 128, Positions: 64, Seed: 1,
		Facts: core.Facts{DType: core.Float32, HeadDim: 128, KVHeads: 8, BlockSize: 16}}
	kerneltest.Benchmark(b, Kernel{}, c, 2*128*8*128)
}
