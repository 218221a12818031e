package rmsnorm

import (
	"errors"
	"fmt"
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
