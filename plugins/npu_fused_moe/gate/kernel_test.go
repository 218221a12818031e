package gate

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
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.MoEGate))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

// use is GLM-4.5's router in full size.
func use(d core.DType, tokens int) kerneltest.Case {
	return kerneltest.Case{Op: core.MoEGate, Tokens: tokens, Seed: 1, Facts: core.Facts{DType: d, Experts: 160, TopK: 8,
		Scoring: core.ScoringSigmoid, Bias: true, Groups: 8, TopGroups: 4, Normalize: true, Scale: 2.5}}
}

func TestHasTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	for _, s := range []core.Scoring{core.ScoringSigmoid, core.ScoringSoftmax} {
		c := use(core.Float32, 200)
		c.Facts.Scoring = s
		simdtest.SameBits(t, new(Kernel), c)
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
	}
}

func TestLargestPutsTheFirstOfEqualOnesFirst(t *testing.T) {
	nan := float32(0)
	nan /= nan
	for _, tt := range []struct {
		v    []float32
		want []int32
	}{
		{[]float32{1, 3, 2, 3, 1}, []int32{1, 3, 2}},
		{[]float32{0, 0, 0, 0}, []int32{0, 1, 2}},
		{[]float32{-1, nan, 5, nan}, []int32{1, 3, 2}},
		{[]float32{-3, -2, -1}, []int32{2, 1, 0}},
	} {
		ids := make([]int32, 3)
		if largest(tt.v, ids); !slices.Equal(ids, tt.want) {
			t.Errorf("largest of %v: %v, want %v", tt.v, ids, tt.want)
		}
	}
}

// TestRefusesExpertsThatDoNotExist: the ids of a backward pass come from elsewhere.
func TestRefusesExpertsThatDoNotExist(t *testing.T) {
	for _, id := range []int32{-1, 160} {
		_, backward, err := kerneltest.Calls(t.Context(), new(Kernel), use(core.Float32, 3))
		if err != nil {
			t.Fatal(err)
		}
		backward.Input("expert_ids").Int32s()[5] = id
		if err := core.Run(t.Context(), new(Kernel), backward); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("expert %d: error %v, want ErrBadCall", id, err)
		}
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.DType = core.Float64 },
		"top_k":           func(f *core.Facts) { f.TopK = 161 },
		"scoring":         func(f *core.Facts) { f.Scoring = "tanh" },
	} {
		f := use(core.Float32, 1).Facts
		if err := new(Kernel).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

func BenchmarkGate(b *testing.B) {
	kerneltest.Benchmark(b, new(Kernel), use(core.Float32, 2048), 0)
}
