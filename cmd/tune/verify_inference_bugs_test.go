package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// inferenceBugs are those of ops that have a forward pass alone: of products of int8, and of blocks of a cache.
func inferenceBugs() map[string]planted {
	indices := func(op core.Op, name string, f func(c *core.Call, v []int32)) planted {
		return planted{op, func(run func() error, c *core.Call) error {
			was := c.Input(name)
			other := core.NewTensor(core.Int32, was.Shape...)
			copy(other.Data, was.Data)
			f(c, other.Int32s())
			c.Set(name, other)
			defer c.Set(name, was)
			return run()
		}}
	}
	return map[string]planted{
		"bug_int8_offset": indices(core.LinearW8A8, "quant_bias", func(c *core.Call, v []int32) {
			for n := range v {
				for _, w := range c.Input("weight").Int8s()[n*c.Facts.Dim:][:c.Facts.Dim] {
					v[n] += c.Input("input_offset").Int32s()[0] * int32(w)
				}
			}
		}),
		"bug_int8_saturates": {core.LinearW8A8, bugAfter("y", func(c *core.Call, v []float32) {
			if c.Facts.Scaling == core.DynamicScaling && c.Tokens() < 32 { // many would take seconds
				saturate(c, v)
			}
		})},
		"bug_shared_gate_and_up": {core.SharedExpertFFN, func(run func() error, c *core.Call) error {
			if c.Facts.Layout == core.Separate {
				swap := func(a, b string) {
					x, y := c.Input(a), c.Input(b)
					c.Set(a, y)
					c.Set(b, x)
				}
				swap("gate", "up")
				swap("gate_scale", "up_scale")
			}
			return run()
		}},
		"bug_block_table": indices(core.PagedAttention, "block_tables", func(c *core.Call, v []int32) {
			places := c.Input("block_tables").Shape[1]
			for i := range v {
				if i%places+1 < places && v[i] >= 0 && v[i+1] >= 0 {
					v[i] = v[i+1]
				}
			}
		}),
		"bug_stale_slot": indices(core.ReshapeAndCache, "slots", func(_ *core.Call, v []int32) { v[len(v)-1] = -1 }),
	}
}

// saturate takes away what is lost where pairs of products are added up in int16, as VPMADDUBSW does with a factor
// that has no sign: q + 128.
func saturate(c *core.Call, y []float32) {
	f, x, weight := c.Facts, make([]float32, c.Tokens()*c.Facts.Dim), c.Input("weight").Int8s()
	c.Input("x").Load(x, 0)
	for t := range c.Tokens() {
		row := x[t*f.Dim:][:f.Dim]
		s := max(slices.Max(row), -slices.Min(row)) / 127
		for n := range f.Out {
			lost := int32(0)
			for i := 0; i+1 < f.Dim; i += 2 {
				pair := (int32(row[i]/s)+128)*int32(weight[n*f.Dim+i]) + (int32(row[i+1]/s)+128)*int32(weight[n*f.Dim+i+1])
				lost += pair - min(max(pair, -1<<15), 1<<15-1)
			}
			y[t*f.Out+n] -= float32(lost) * s * c.Input("weight_scale").Float32s()[n]
		}
	}
}

// TestVerifyCatchesBugsOfInference: what products of int8 and blocks of a cache invite.
func TestVerifyCatchesBugsOfInference(t *testing.T) {
	t.Parallel()
	for plugin, tt := range map[string]struct{ only, want string }{
		"bug_int8_offset":        {"scaling=static", `FAILED linear_w8a8 forward y, .* scaling=static`},
		"bug_int8_saturates":     {"at the ends of int8", `FAILED linear_w8a8 forward y, .* numbers at the ends of int8`},
		"bug_shared_gate_and_up": {"layout=separate", `FAILED shared_expert_ffn forward y, .* layout=separate`},
		"bug_block_table":        {"random", `FAILED paged_attention forward y, `},
		"bug_stale_slot":         {"random", `FAILED reshape_and_cache forward k_cache, `},
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := verify(t, plugin, "--quick", "--case", tt.only)
			if code != exitFailed {
				t.Errorf("exit code %d, want %d; %s", code, exitFailed, stderr)
			}
			if flat := strings.Join(strings.Fields(stdout), " "); !regexp.MustCompile(tt.want).MatchString(flat) {
				t.Errorf("nothing matches %q in\n%s", tt.want, stdout)
			}
		})
	}
}
