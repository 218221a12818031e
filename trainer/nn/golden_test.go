package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

func TestAttentionEqualsPublishedCode(t *testing.T) {
	recorded(t, "attention", func(t *testing.T, r recording) {
		var p struct {
			Window int `json:"sliding_window"`
		}
		r.read(&p)
		shape, kv := r.tensor("in.q").Shape, r.tensor("in.k").Shape[1]
		b, heads, s, d := shape[0], shape[1], shape[2], shape[3]
		c, batch := newContext(t, b, s), plainBatch(b, s)
		switch r.variant {
		case "causal_right_padded":
			batch.Segments = r.ints("in.attention_mask")
		case "packed":
			batch.Segments = r.ints("in.segment_ids")
			if low := slices.Min(batch.Segments); low < 1 {
				for i := range batch.Segments {
					batch.Segments[i] += 1 - low
				}
			}
		}
		fill(t, c, batch)
		leaf := func(name string, heads int) *autograd.Value {
			return param(c, name, swapped(r.tensor("in."+name).Float32s(), b, heads, s, d), b*s, heads, d)
		}
		wrt := []*autograd.Value{leaf("q", heads), leaf("k", kv), leaf("v", kv)}
		op := attentionOp(b, s, AttentionConfig{Heads: heads, KVHeads: kv, HeadDim: d})
		out := c.G.ApplyAll(op, append(slices.Clone(wrt), c.keysWithin(p.Window))...)[:1]
		values, grads := run(t, c, out, [][]float32{r.tensor("in.d_out").Float32s()}, wrt...)
		r.near("out", values[0])
		for i, name := range []string{"q", "k", "v"} {
			h := wrt[i].Shape()[1]
			r.near("grad."+name, swapped(grads[i], b, s, h, d))
		}
	})
}

func TestCrossEntropyEqualsPublishedCode(t *testing.T) {
	recorded(t, "cross_entropy", func(t *testing.T, r recording) {
		shape := r.tensor("in.logits").Shape
		labels := r.ints("in.labels")
		logits := r.tensor("in.logits").Float32s()
		v := shape[len(shape)-1]
		b, s := shape[0], shape[1]
		if flat := len(shape) == 2; flat { // one more position, because targets are shifted
			b, s = 1, shape[0]+1
			labels = append([]int32{-100}, labels...)
			logits = append(slices.Clone(logits), make([]float32, v)...)
		}
		c := newContext(t, b, s)
		copy(c.batch.Labels, labels)
		var p struct {
			Items int `json:"num_items_in_batch"`
		}
		r.read(&p)
		if p.Items == 0 {
			p.Items = c.batch.Targets()
		}
		c.batch.Divisor[0] = float32(p.Items)
		x := param(c, "logits", slices.Clone(logits), b*s, v)
		values, grads := run(t, c, []*autograd.Value{CrossEntropy(c, x)}, [][]float32{{1}}, x)
		r.near("loss", values[0])
		want := append(slices.Clone(r.tensor("f64.grad.logits").Float64s()), make([]float64, v)...)
		r.nearTo("grad.logits", grads[0], want[:len(grads[0])])
	})
}

func TestEmbeddingEqualsPublishedCode(t *testing.T) {
	recorded(t, "embedding", func(t *testing.T, r recording) {
		p := struct {
			Padding int `json:"padding_idx"`
		}{-1}
		r.read(&p)
		ids, w := r.tensor("in.ids").Shape, r.tensor("in.weight")
		c := newContext(t, ids[0], ids[1])
		copy(c.batch.IDs, r.ints("in.ids"))
		e := NewEmbedding(NewBuilder(autograd.Heap{}), "embed", w.Shape[0], w.Shape[1], p.Padding)
		copy(e.Weight.Tensor.Data, w.Data)
		values, grads := run(t, c, []*autograd.Value{e.Forward(c)}, [][]float32{r.tensor("in.d_y").Float32s()},
			c.Leaf(e.Weight))
		r.near("y", values[0])
		r.near("grad.weight", grads[0])
	})
}

func TestMLPEqualsPublishedCode(t *testing.T) {
	recorded(t, "swiglu", func(t *testing.T, r recording) {
		b := NewBuilder(autograd.Heap{})
		switch r.variant {
		case "mlp":
			w := r.tensor("in.gate_proj").Shape
			m := NewMLP(b, "mlp", "mlp", w[1], w[0], false)
			r.block(m, map[string]*Param{"gate_proj": m.in[0].Weight, "up_proj": m.in[1].Weight, "down_proj": m.down.Weight},
				w[1])
		case "mlp_fused":
			w := r.tensor("in.gate_up_proj").Shape
			m := NewPackedMLP(b, "mlp", "mlp", w[1], w[0]/2)
			r.block(m, map[string]*Param{"gate_up_proj": m.in[0].Weight, "down_proj": m.down.Weight}, w[1])
		default:
			t.Skip("not a whole block")
		}
	})
}

func TestMoEEqualsPublishedCode(t *testing.T) {
	for _, op := range []string{"moe_qwen3", "moe_glm"} {
		recorded(t, op, func(t *testing.T, r recording) {
			glm := op == "moe_glm"
			w := r.tensor("in.gate_proj").Shape
			cfg := MoEConfig{Hidden: w[2], Intermediate: w[1], Router: r.routerConfig(glm)}
			if glm {
				cfg.Shared = r.tensor("in.shared_gate_proj").Shape[0]
			}
			m := NewMoE(NewBuilder(autograd.Heap{}), "mlp", "mlp", cfg)
			weights := map[string]*Param{"gate": m.router.gate.Weight, "experts": m.gateUp, "down": m.down}
			if glm {
				copy(m.router.bias.Tensor.Data, r.tensor("in.bias").Data)
				weights["shared_gate_proj"], weights["shared_up_proj"] = m.shared.in[0].Weight, m.shared.in[1].Weight
				weights["shared_down_proj"] = m.shared.down.Weight
			}
			// The recording stacks what the files keep one by one: entries of the same name.
			for _, packed := range []*Param{m.gateUp, m.down} {
				for _, e := range packed.Entries {
					copy(e.View(packed.Tensor).Data, r.part("in.", e).Data)
				}
			}
			r.block(m, weights, w[2])
		})
	}
}

// part returns the tensor of one expert from a recorded stack.
func (r recording) part(prefix string, e Entry) core.Tensor {
	r.t.Helper()
	var expert int
	var name string
	fields := strings.Split(e.Name, ".") // mlp.experts.3.up_proj.weight
	for _, digit := range fields[2] {
		expert = 10*expert + int(digit-'0')
	}
	name = fields[3]
	x, n := r.tensor(prefix+name), e.Shape.Elems()
	return x.Slice(expert*n, (expert+1)*n, e.Shape...)
}

// block runs a feed-forward block and compares its output and every gradient.
func (r recording) block(m Block, weights map[string]*Param, hidden int) {
	r.t.Helper()
	rows := r.tensor("in.x").Elems() / hidden
	c := newContext(r.t, 1, rows)
	wrt, names := []*autograd.Value{r.in(c, "x", rows, hidden)}, []string{"x"}
	for name, p := range weights {
		if _, _, ok := r.file.Lookup(r.variant + ".in." + name); ok {
			copy(p.Tensor.Data, r.tensor("in."+name).Data)
		}
		wrt, names = append(wrt, c.Leaf(p)), append(names, name)
	}
	values, grads := run(r.t, c, []*autograd.Value{m.Forward(c, wrt[0])}, [][]float32{r.tensor("in.d_y").Float32s()},
		wrt...)
	r.near("y", values[0])
	for i, name := range names {
		if p := weights[name]; p != nil && len(p.Entries) > 1 {
			r.entries(p, grads[i])
			continue
		}
		r.near("grad."+name, grads[i])
	}
}

// entries compares the gradient of a packed parameter, expert by expert. Experts are
// held to the scale of all of them: one with a few tokens has nearly no gradient.
func (r recording) entries(p *Param, grad []float32) {
	r.t.Helper()
	got, want := map[string][]float32{}, map[string][]float64{}
	for _, e := range p.Entries {
		name := strings.Split(e.Name, ".")[3]
		got[name] = append(got[name], grad[e.Offset:e.Offset+e.Shape.Elems()]...)
		want[name] = append(want[name], r.part("f64.grad.", e).Float64s()...)
	}
	for name := range want {
		r.nearTo("grad."+name, got[name], want[name])
	}
}
