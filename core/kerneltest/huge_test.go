package kerneltest_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestAnIndexThatOverflowsShowsAtTheLastTokens plants an index of 11 bits in a call whose
// largest input has more than 2^12 elements, and its output at least half as many.
func TestAnIndexThatOverflowsShowsAtTheLastTokens(t *testing.T) {
	const elems = 1 << 12
	const limit = elems / 2
	short := func(run runFunc, c *core.Call) error {
		if err := run(c); err != nil {
			return err
		}
		y := c.Out[0]
		for i := limit; i < y.Elems(); i++ { // what is written there goes elsewhere
			copy(y.Slice(i-limit, i-limit+1, 1).Data, y.Slice(i, i+1, 1).Data)
			clear(y.Slice(i, i+1, 1).Data)
		}
		return nil
	}
	for _, op := range []core.Op{core.RMSNorm, core.AddRMSNorm, core.SwiGLU, core.RoPE} {
		t.Run(string(op), func(t *testing.T) {
			o := kerneltest.Options{Inputs: new(counting), Room: 1 << 20}
			k := reference.Single(op)
			if r := kerneltest.Huge(t.Context(), k, facts[op], o, elems); r.Status != kerneltest.OK || r.Tokens < 64 {
				t.Errorf("without a bug: %s, %s, %v, %d tokens", r.Status, r.Reason, r.Err(), r.Tokens)
			}
			r := kerneltest.Huge(t.Context(), faulty{k, short}, facts[op], o, elems)
			if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), "the first and last tokens of ") {
				t.Errorf("not caught: %s, %v", r.Status, r.Err())
			}
		})
	}
}

func TestHugeCallsNeedRoom(t *testing.T) {
	k, f := reference.Single(core.RMSNorm), facts[core.RMSNorm]
	for want, o := range map[string]kerneltest.Options{
		"it takes 19.5 GB of memory and is run on request only": {Inputs: new(counting)},
		"it takes 19.5 GB of memory, and 1.0 GB are free":       {Inputs: new(counting), Room: 1e9},
	} {
		if r := kerneltest.Huge(t.Context(), k, f, o, 1<<31); r.Status != kerneltest.Skipped || r.Reason != want {
			t.Errorf("%s: %q, want %q", r.Status, r.Reason, want)
		}
	}
	r := kerneltest.Huge(t.Context(), reference.Single(core.Attention), facts[core.Attention], kerneltest.Options{},
		1<<31)
	if r.Status != kerneltest.Skipped || !strings.Contains(r.Reason, "too long") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}
