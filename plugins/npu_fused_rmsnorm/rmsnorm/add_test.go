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

func TestAddConforms(t *testing.T) {
	kerneltest.Run(t, &Kernel{Add: true}, kerneltest.Cases(core.AddRMSNorm))
}

// TestAddAgreesWithPublishedCode allows eight roundings of float32.
func TestAddAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, &Kernel{Add: true}, core.Float32, 0x1p-20)
}

func useAdd(d core.DType, tokens, dim int) kerneltest.Case {
	c := use(d, tokens, dim)
	c.Op = core.AddRMSNorm
	return c
}

func TestAddManyBlocks(t *testing.T) {
	c := useAdd(core.Float32, 16*maxBlocks+77, 40)
	kerneltest.Run(t, &Kernel{Add: true}, []kerneltest.Case{c})
	simdtest.SameBits(t, &Kernel{Add: true}, c)
}

func TestAddSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.WeightDType = core.Float64 },
		"offset":          func(f *core.Facts) { f.Offset = 2 },
	} {
		f := useAdd(core.Float32, 1, 4).Facts
		if err := (&Kernel{Add: true}).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := (&Kernel{Add: true}).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

func BenchmarkAddRMSNorm(b *testing.B) {
	for _, d := range []core.DType{core.Float32, core.BFloat16} {
		b.Run(fmt.Sprintf("%s/2048x1024", d), func(b *testing.B) {
			kerneltest.Benchmark(b, &Kernel{Add: true}, useAdd(d, 2048, 1024), 0)
		})
	}
}
