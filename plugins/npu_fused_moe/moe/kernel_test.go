package moe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.MoEExperts))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

func use(d core.DType, tokens, dim, intermediate, experts, topK int) kerneltest.Case {
	return kerneltest.Case{Op: core.MoEExperts, Tokens: tokens, Seed: 1, Facts: core.Facts{
		DType: d, WeightDType: d, Dim: dim, Intermediate: intermediate, Activation: "silu",
		Layout: core.Packed, Experts: experts, TopK: topK, Routing: core.RoutingNormalized}}
}

// TestExpertsThatSpanBlocks has more rows than a block, so that experts are cut, and
// two of them in more than one block.
func TestExpertsThatSpanBlocks(t *testing.T) {
	c := use(core.Float32, blockRows+100, 6, 5, 3, 2)
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
	simdtest.SameBits(t, new(Kernel), c)
}

func TestSortIsStableByExpert(t *testing.T) {
	var r routes
	r.sort([]int32{2, 0, 0, 2, 3, 0}, 5)
	if want := []int{1, 2, 5, 0, 3, 4}; !slices.Equal(r.order, want) {
		t.Errorf("order %v, want %v", r.order, want)
	}
	if want := []int{0, 3, 3, 5, 6, 6}; !slices.Equal(r.start, want) {
		t.Errorf("start %v, want %v", r.start, want)
	}
	for row, a := range r.order {
		if r.row[a] != row {
			t.Errorf("row[%d] = %d, want %d", a, r.row[a], row)
		}
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.WeightDType = core.Float64 },
		"gelu":            func(f *core.Facts) { f.Activation = "gelu" },
		"top_k":           func(f *core.Facts) { f.TopK = 3 },
	} {
		f := use(core.Float32, 1, 4, 4, 2, 1).Facts
		if err := new(Kernel).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

// BenchmarkMoE is a layer of 32 experts, a quarter as wide as published ones.
func BenchmarkMoE(b *testing.B) {
	const T, D, I, E, K = 2048, 512, 384, 32, 4
	for _, d := range []core.DType{core.Float32, core.BFloat16} {
		b.Run(d.String(), func(b *testing.B) {
			kerneltest.Benchmark(b, new(Kernel), use(d, T, D, I, E, K), 2*T*K*3*D*I)
		})
	}
}
