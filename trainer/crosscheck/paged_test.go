package crosscheck_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// TestCachesAreCompared: what the reference and the project's kernels give is right in all cases of the kit,
// and one element that is wrong is found, where it is one that a text depends on.
func TestCachesAreCompared(t *testing.T) {
	for _, op := range []core.Op{core.PagedAttention, core.ReshapeAndCache} {
		all := linked.Kernels()
		own := all[slices.IndexFunc(all, func(k core.Kernel) bool { return k.Info().Op == op })]
		caught := 0
		for _, c := range kerneltest.Cases(op) {
			if c.Facts.DType != core.Float32 {
				continue
			}
			for _, k := range []core.Kernel{reference.Kernel(op), own} {
				call, _, err := kerneltest.Calls(t.Context(), k, c)
				if err != nil {
					t.Fatal(err)
				}
				if err := crosscheck.Compare(call); err != nil {
					t.Errorf("%s, %s of %s: %v", c.Name, op, k.Info().Name, err)
				}
				if !strings.HasSuffix(c.Name, "nan and inf") && spoil(call) { // there, what may be beyond float32 has no limit
					var wrong *crosscheck.Mismatch
					if err := crosscheck.Compare(call); !errors.As(err, &wrong) {
						t.Errorf("%s, %s: error %v for an element that is wrong", c.Name, op, err)
					}
					caught++
				}
			}
		}
		if caught < 20 {
			t.Errorf("%s: %d calls were spoilt", op, caught)
		}
	}
}

// spoil changes an element that is finite and matters; it returns false if there is none.
func spoil(c *core.Call) bool {
	if c.Op == core.PagedAttention {
		for i, v := range c.Output("y").Float32s() {
			if v-v == 0 {
				c.Output("y").Float32s()[i] = v + 1e6
				return true
			}
		}
		return false
	}
	for _, slot := range c.Input("slots").Int32s() {
		if at := int(slot) * c.Facts.KVHeads * c.Facts.HeadDim; slot >= 0 && c.Output("v_cache").Float32s()[at] == 0 {
			continue
		} else if slot >= 0 {
			c.Output("v_cache").Float32s()[at] += 1
			return true
		}
	}
	return false
}
