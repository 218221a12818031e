package kerneltest_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// rounded are uses whose products have factors in bfloat16.
func rounded() []core.Facts {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 65, Out: 33, Bias: true, Products: core.BFloat16}
	adapted := f
	adapted.Rank, adapted.Scale = 5, 0.3
	return []core.Facts{f, adapted}
}

func nearest(_ *core.Call, v []float32) {
	for i, x := range v {
		v[i] = core.BFloat16ToFloat32(core.Float32ToBFloat16(x))
	}
}

func truncated(_ *core.Call, v []float32) {
	for i, x := range v {
		v[i] = math.Float32frombits(math.Float32bits(x) &^ 0xffff)
	}
}

// roundedOnce has the factors that are stored rounded, and those that are computed not.
func roundedOnce(run runFunc, c *core.Call) error {
	for _, a := range c.Sig.In {
		if a.Name != "bias" {
			before := run
			run = func(c *core.Call) error { return withInput(a.Name, nearest)(before, c) }
		}
	}
	return withFacts(func(f *core.Facts) { f.Products = core.InvalidDType })(run, c)
}

func TestProductsThatRoundOtherwiseAreCaught(t *testing.T) {
	for name, bug := range map[string]func(runFunc, *core.Call) error{
		"not at all":             withFacts(func(f *core.Facts) { f.Products = core.InvalidDType }),
		"x towards zero":         withInputOf(core.Forward, "x", truncated),
		"weight towards zero":    withInput("weight", truncated),
		"the bias":               withInputOf(core.Forward, "bias", nearest),
		"what dbias adds up":     withInputOf(core.Backward, "dy", nearest),
		"the adapter's u, and v": roundedOnce,
	} {
		t.Run(name, func(t *testing.T) {
			caught := false
			for _, f := range rounded() {
				for seed := range uint64(3) {
					c := kerneltest.Case{Name: name, Op: core.Linear, Facts: f, Tokens: 40, Seed: seed}
					err := kerneltest.Check(faulty{reference.Single(core.Linear), bug}, []kerneltest.Case{c})
					caught = caught || errors.Is(err, core.ErrWrongResult)
				}
			}
			if !caught {
				t.Error("not caught")
			}
		})
	}
}

// TestSumsOnABorderMayFallToEitherSide has a kernel whose u and v are off by as much as float32 sums in another
// order may be: in one case of these or another, an element is rounded to the other side.
func TestSumsOnABorderMayFallToEitherSide(t *testing.T) {
	f := rounded()[1]
	for seed := range uint64(20) {
		for _, by := range []float64{1 + 0x1p-22, 1 - 0x1p-22} {
			k := faulty{reference.Single(core.Linear), func(run runFunc, c *core.Call) error {
				return withFacts(func(f *core.Facts) { f.Scale *= by })(run, c)
			}}
			c := kerneltest.Case{Name: fmt.Sprint(seed), Op: core.Linear, Facts: f, Tokens: 200, Seed: seed}
			if err := kerneltest.Check(k, []kerneltest.Case{c}); err != nil {
				t.Errorf("seed %d, scale times %v: %v", seed, by, err)
			}
		}
	}
}
