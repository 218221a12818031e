package kerneltest_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// keptUnder spoils calls whose weight was known before, under something else than it is now.
func keptUnder[K comparable](key func(c *core.Call) K) func(core.Op) core.Kernel {
	kept := map[uint64]K{}
	bug := where(func(c *core.Call) bool {
		n := c.Input("weight").Content
		if n == 0 {
			return false
		}
		if _, ok := kept[n]; !ok {
			kept[n] = key(c)
		}
		return kept[n] != key(c)
	})
	return func(op core.Op) core.Kernel { return faulty{reference.Single(op), bug} }
}

// TestWeightsOfSeveralUsesAreKeptForEach: what is made of a weight for one is no use to another.
func TestWeightsOfSeveralUsesAreKeptForEach(t *testing.T) {
	for name, b := range map[string]struct {
		kernel func(core.Op) core.Kernel
		want   string
	}{
		"by the number alone, of two ops": {keptUnder(func(c *core.Call) core.Op { return c.Op }),
			"of linear_cross_entropy, float32 "},
		"by the number alone, with and without an adapter": {keptUnder(func(c *core.Call) int { return c.Facts.Rank }),
			" with the weight of a call with float32 "},
		"by the number alone, of other roundings": {
			keptUnder(func(c *core.Call) core.DType { return c.Facts.Products }), "products=bfloat16"},
		"for each use": {reference.Single, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := kerneltest.SharedWeights(t.Context(), b.kernel(core.Linear), core.Float32, b.kernel(core.LinearCrossEntropy))
			if r.Status != kerneltest.OK != (b.want != "") || b.want != "" && !strings.Contains(r.Err().Error(), b.want) {
				t.Errorf("%s, want %q: %.1000v", r.Status, b.want, r.Err())
			}
		})
	}
}
