package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestIndicesMustPointAtSomething: each edit is of a call that passes as it is, and every
// message says which element is wrong and what it may be.
func TestIndicesMustPointAtSomething(t *testing.T) {
	edit := func(name string, at int, to int32) func(*core.Call) {
		return func(c *core.Call) { c.Input(name).Int32s()[at] = to }
	}
	both := func(first, second func(*core.Call)) func(*core.Call) {
		return func(c *core.Call) { first(c); second(c) }
	}
	last := int32(9*validFacts(core.PagedAttention).BlockSize - 1) // of the places in 9 blocks
	tests := []struct {
		use  string
		pass core.Pass
		edit func(c *core.Call)
		want string // of the error; "" for none
	}{
		{"rope", core.Forward, edit("positions", 2, 8), ""},
		{"rope", core.Forward, edit("positions", 2, 9), "positions[2] is 9, the tables have 9 rows"},
		{"rope", core.Backward, edit("positions", 0, -1), "positions[0] is -1, the tables have 9 rows"},
		{"moe_experts", core.Forward, edit("expert_ids", 3, 3), "expert_ids[1,1] is 3, there are 3 experts"},
		{"moe_experts packed", core.Backward, edit("expert_ids", 0, -1), "expert_ids[0,0] is -1, there are 3 experts"},
		{"moe_gate", core.Backward, edit("expert_ids", 1, 99), "expert_ids[0,1] is 99, there are 8 experts"},
		{"attention", core.Forward, edit("keys", 3, 5), ""},
		{"attention", core.Forward, edit("keys", 3, 6), "keys[1] is [0, 6), not a range of the 5 tokens"},
		{"attention", core.Backward, edit("keys", 0, -1), "keys[0] is [-1, 0), not a range of the 5 tokens"},
		{"attention", core.Forward, edit("keys", 4, 1), "keys[2] is [1, 0), not a range of the 5 tokens"},
		{"linear_cross_entropy", core.Forward, edit("labels", 4, -100), ""},
		{"linear_cross_entropy", core.Backward, edit("labels", 4, 9), "labels[4] is 9, the vocabulary has 9"},
		{"reshape_and_cache", core.Forward, edit("slots", 4, last), ""},
		{"reshape_and_cache", core.Forward, edit("slots", 4, last+1), "slots[4] is 72, the cache has 72 slots"},
		{"reshape_and_cache", core.Forward, both(edit("slots", 3, -1), edit("slots", 4, -1)), ""},
		{"reshape_and_cache", core.Forward, edit("slots", 4, 1), "slots[4] is 1, which slots[1] is, too"},
		{"paged_attention", core.Forward, edit("block_tables", 10, 8), ""},
		{"paged_attention", core.Forward, edit("block_tables", 10, 9), "block_tables[1,1] is 9, the cache has 9 blocks"},
		{"paged_attention", core.Forward, both(edit("block_tables", 10, -1), edit("seq_lens", 1, 8)), ""},
		{"paged_attention", core.Forward, both(edit("block_tables", 10, -1), edit("seq_lens", 1, 9)),
			"block_tables[1,1] is -1, of a sequence of 9 tokens"},
		{"paged_attention", core.Forward, edit("seq_lens", 4, last+1), ""},
		{"paged_attention", core.Forward, edit("seq_lens", 4, last+2),
			"seq_lens[4] is 73; a table has 9 places for blocks of 8"},
		{"paged_attention", core.Forward, edit("seq_lens", 0, -1), "seq_lens[0] is -1; a table has 9 places for blocks of 8"},
		{"paged_attention", core.Forward, both(edit("query_lens", 0, 2), edit("query_lens", 3, 3)), ""},
		{"paged_attention", core.Forward, both(edit("query_lens", 0, 2), edit("query_lens", 3, 4)),
			"query_lens[3] is 4, which makes 6 of 5 tokens"},
		{"paged_attention", core.Forward, edit("query_lens", 0, -1), "query_lens[0] is -1, which makes -1 of 5 tokens"},
	}
	for _, tt := range tests {
		c := newCall(t, uses()[tt.use], tt.pass, 5)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		tt.edit(c)
		err := c.Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s %s: %v", tt.use, tt.pass, err)
		case tt.want != "" && (!errors.Is(err, core.ErrBadCall) || !strings.HasSuffix(err.Error(), tt.want)):
			t.Errorf("%s %s: error %v, want one that ends in %q", tt.use, tt.pass, err, tt.want)
		}
	}
}

// counted is a kernel that counts its calls.
type counted struct {
	*fakeKernel
	forward, backward int
}

func (k *counted) Forward(context.Context, *core.Call) error  { k.forward++; return nil }
func (k *counted) Backward(context.Context, *core.Call) error { k.backward++; return nil }

func TestRunChecksACallBeforeTheKernelSeesIt(t *testing.T) {
	k := &counted{fakeKernel: newKernel("fast_rope", core.RoPE)}
	good := func() *core.Call {
		c := newCall(t, uses()["rope"], core.Backward, 5)
		c.Site = "layers.0.rope"
		return c
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := core.Run(done, k, good()); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: error %v", err)
	}
	for name, spoil := range map[string]func(*core.Call){
		"an index":   func(c *core.Call) { c.Input("positions").Int32s()[0] = 9 },
		"a tensor":   func(c *core.Call) { c.Out[0] = core.Tensor{} },
		"another op": func(c *core.Call) { *c = *newCall(t, uses()["swiglu"], core.Backward, 5); c.Site = "layers.0.rope" },
	} {
		c := good()
		spoil(c)
		err := core.Run(t.Context(), k, c)
		if !errors.Is(err, core.ErrBadCall) || !strings.Contains(err.Error(),
			"kernel fast_rope") || !strings.Contains(err.Error(), "layers.0.rope") {
			t.Errorf("%s: error %v, want one that names the kernel and the site", name, err)
		}
	}
	if k.forward+k.backward > 0 {
		t.Errorf("the kernel was called %d times", k.forward+k.backward)
	}
	for _, pass := range passes {
		if err := core.Run(t.Context(), k, newCall(t, uses()["rope"], pass, 5)); err != nil {
			t.Error(err)
		}
	}
	if k.forward != 1 || k.backward != 1 {
		t.Errorf("forward was called %d times, backward %d", k.forward, k.backward)
	}
}

func TestInfoSupportsNamesTheFactAtFault(t *testing.T) {
	half := []core.DType{core.Float32, core.BFloat16}
	tests := []struct {
		name string
		op   core.Op
		edit func(f *core.Facts)
		want string // of the error; "" for none
	}{
		{"as they are", core.RMSNorm, func(f *core.Facts) {}, ""},
		{"weights of another type", core.RMSNorm, func(f *core.Facts) { f.WeightDType = core.BFloat16 }, ""},
		{"no weights", core.RoPE, func(f *core.Facts) {}, ""},
		{"storage", core.SwiGLU, func(f *core.Facts) { f.DType = core.Float16 },
			"storage float16; it can be [float32 bfloat16]"},
		{"storage of weights",
			core.MoEExperts, func(f *core.Facts) { f.WeightDType = core.Float64 }, "storage float64; it can be"},
		{"activation", core.SwiGLU, func(f *core.Facts) { f.Activation = "gelu" }, `activation "gelu"; it can be silu`},
		{"not valid", core.RMSNorm, func(f *core.Facts) { f.Offset = 2 }, "offset must be 0 or 1"},
	}
	for _, tt := range tests {
		f := validFacts(tt.op)
		tt.edit(&f)
		err := core.Info{Name: "k", Op: tt.op, DTypes: half}.Supports(f)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (!errors.Is(err, core.ErrNotSupported) || !strings.HasPrefix(err.Error(),
			"k: ") || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}
