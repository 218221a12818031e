package rmsnorm

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.RMSNorm))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

func use(d core.DType, tokens, dim int) kerneltest.Case {
	return kerneltest.Case{Op: core.RMSNorm, Tokens: tokens, Seed: 1, Facts: core.Facts{
		DType: d, WeightDType: d, Dim: dim, Eps: 1e-6, Cast: core.CastBeforeWeight}}
}

// TestManyBlocks has more tokens than blocks of 16 cover.
func TestManyBlocks(t *testing.T) {
	c := use(core.Float32, 16*maxBlocks+77, 40)
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
	simdtest.SameBits(t, new(Kernel), c)
}

// TestLargeCalls has rows that start anywhere in a cache line. Each element of dweight is a
// sum of T terms, with two roundings each, over blocks of size tokens and then over the
// blocks in pairs: so many roundings of the sum of their sizes.
func TestLargeCalls(t *testing.T) {
	const times = 135
	small, large := simdtest.SameWhenLarge(t, new(Kernel), use(core.Float32, 61, 1027), times)
	D, T := small.Facts.Dim, large.Tokens()
	dy, x, rstd := small.Input("dy").Float32s(), small.Input("x").Float32s(), small.Input("rstd").Float32s()
	roundings := (T+maxBlocks-1)/maxBlocks + 6 + 2
	for i, got := range large.Output("dweight").Float32s() {
		var want, sizes float64
		for r, s := range rstd {
			term := float64(dy[r*D+i]) * float64(x[r*D+i]) * float64(s)
			want += times * term
			sizes += times * math.Abs(term)
		}
		if limit := float64(roundings) * 0x1p-24 * sizes; !(math.Abs(float64(got)-want) <= limit) {
			t.Fatalf("dweight[%d] is %v, want %v, within %.2g", i, got, want, limit)
		}
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.WeightDType = core.Float64 },
		"offset":          func(f *core.Facts) { f.Offset = 2 },
	} {
		f := use(core.Float32, 1, 4).Facts
		if err := new(Kernel).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

func BenchmarkRMSNorm(b *testing.B) {
	for _, d := range []core.DType{core.Float32, core.BFloat16} {
		for _, dim := range []int{1024, 4096} {
			b.Run(fmt.Sprintf("%s/2048x%d", d, dim), func(b *testing.B) {
				kerneltest.Benchmark(b, new(Kernel), use(d, 2048, dim), 0)
			})
		}
	}
}
