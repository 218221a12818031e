package rope

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, Kernel{}, kerneltest.Cases(core.RoPE))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, Kernel{}, core.Float32, 0x1p-20)
}

func use(d core.DType, pairing core.Pairing, tokens int) kerneltest.Case {
	return kerneltest.Case{Op: core.RoPE, Tokens: tokens, Positions: 4096, Seed: 1, Facts: core.Facts{
		DType: d, Pairing: pairing, RotaryDim: 128, HeadDim: 128, Heads: 16, KVHeads: 8}}
}

func TestBitsDoNotDependOnThreads(t *testing.T) {
	simdtest.SameBits(t, Kernel{}, use(core.Float32, core.Half, 50))
}

// TestLargeCalls has heads that start anywhere in a cache line, and a part of which is not
// rotated.
func TestLargeCalls(t *testing.T) {
	for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
		t.Run(string(pairing), func(t *testing.T) {
			c := use(core.Float32, pairing, 61)
			c.Facts.HeadDim, c.Facts.RotaryDim = 131, 128
			simdtest.SameWhenLarge(t, Kernel{}, c, 45)
		})
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.DType = core.Float64 },
		"rotary_dim":      func(f *core.Facts) { f.RotaryDim = 3 },
	} {
		f := use(core.Float32, core.Half, 1).Facts
		if err := (Kernel{}).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := (Kernel{}).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

func BenchmarkRoPE(b *testing.B) {
	for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
		for _, d := range []core.DType{core.Float32, core.BFloat16} {
			b.Run(string(pairing)+"/"+d.String(), func(b *testing.B) {
				kerneltest.Benchmark(b, Kernel{}, use(d, pairing, 2048), 0)
			})
		}
	}
}
