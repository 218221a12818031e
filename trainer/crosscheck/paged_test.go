package crosscheck_test

import (
	"context"
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

// bySequences is a kernel that is wrong for some numbers of sequences.
type bySequences struct {
	core.Kernel
	wrong func(sequences int) bool
}

func (k *bySequences) Forward(ctx context.Context, c *core.Call) error {
	err := k.Kernel.Forward(ctx, c)
	if k.wrong(c.Input("query_lens").Shape[0]) {
		c.Output("y").Float32s()[0]++
	}
	return err
}

// TestTokensOfOneSequenceAndOfSeveralAreCompared, also where there are as many of them.
func TestTokensOfOneSequenceAndOfSeveralAreCompared(t *testing.T) {
	const tokens = 4
	f := core.Facts{DType: core.Float32, HeadDim: 4, Heads: 2, KVHeads: 1, BlockSize: 4, Scale: 0.5}
	call := func(lens ...int32) *core.Call {
		c, err := core.NewCall(core.PagedAttention, core.Forward, f)
		if err != nil {
			t.Fatal(err)
		}
		for name, shape := range map[string]core.Shape{"q": {tokens, 2, 4}, "k_cache": {2, 4, 1, 4}, "v_cache": {2, 4, 1, 4},
			"y": {tokens, 2, 4}} {
			c.Set(name, core.NewTensor(core.Float32, shape...))
		}
		c.Set("block_tables", core.NewTensor(core.Int32, len(lens), 1))
		c.Set("query_lens", core.FromInt32(lens, len(lens)))
		c.Set("seq_lens", core.FromInt32(lens, len(lens)))
		return c
	}
	one, several := call(tokens), call(1, 1, 1, 1)
	for name, wrong := range map[string]int{"one": 1, "several": tokens} {
		checker := crosscheck.New(1000)
		k := checker.Watch(&bySequences{reference.Kernel(core.PagedAttention), func(n int) bool { return n == wrong }})
		for i, c := range []*core.Call{one, several, one, several} {
			err := core.Run(t.Context(), k, c)
			if found := crosscheck.Wrong(err) != nil; found != (len(c.Input("query_lens").Int32s()) == wrong) {
				t.Errorf("%s, call %d: error %v", name, i, err)
			}
		}
	}
}
