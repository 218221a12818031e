package swiglu

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
	kerneltest.Run(t, Kernel{}, kerneltest.Cases(core.SwiGLU))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, Kernel{}, core.Float32, 0x1p-20)
}

func use(d core.DType, layout core.Layout, tokens, intermediate int) kerneltest.Case {
	return kerneltest.Case{Op: core.SwiGLU, Tokens: tokens, Seed: 1, Facts: core.Facts{
		DType: d, Intermediate: intermediate, Activation: "silu", Layout: layout}}
}

// TestRowsOfManySpans has rows that end inside a span.
func TestRowsOfManySpans(t *testing.T) {
	for _, layout := range []core.Layout{core.Separate, core.Packed} {
		c := use(core.Float32, layout, 9, 3*span+17)
		kerneltest.Run(t, Kernel{}, []kerneltest.Case{c})
		simdtest.SameBits(t, Kernel{}, c)
	}
}

// TestLargeCalls has rows that start anywhere in a cache line; but packed halves only both
// go past the caches when they start at the same place in one.
func TestLargeCalls(t *testing.T) {
	for layout, width := range map[core.Layout]int{core.Separate: 2*span + 19, core.Packed: 2*span + 16} {
		t.Run(string(layout), func(t *testing.T) {
			simdtest.SameWhenLarge(t, Kernel{}, use(core.Float32, layout, 31, width), 90)
		})
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.DType = core.Float64 },
		"gelu":            func(f *core.Facts) { f.Activation = "gelu" },
	} {
		f := use(core.Float32, core.Packed, 1, 4).Facts
		if err := (Kernel{}).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := (Kernel{}).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

func BenchmarkSwiGLU(b *testing.B) {
	for _, d := range []core.DType{core.Float32, core.BFloat16} {
		b.Run(d.String(), func(b *testing.B) {
			kerneltest.Benchmark(b, Kernel{}, use(d, core.Separate, 2048, 3072), 0)
		})
	}
}
