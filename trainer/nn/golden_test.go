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
		if r.variant == "sliding_window" {
			t.Skip("no supported model has a window")
		}
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
		out := c.G.ApplyAll(op, append(slices.Clone(wrt), c.keys)...)[:1]
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
		values, grads := run(t, c, []*autograd.Value{e.Forward(c)}, [][]float32{r.tensor("in.d_y").Float32s()}, c.Leaf(e.Weight))
		r.near("y", values[0])
		r.near("grad.weight", grads[0])
	})
}

func TestRouterEqualsPublishedCode(t *testing.T) {
	recorded(t, "router_softmax", func(t *testing.T, r recording) {
		var p struct {
			K    int  `json:"top_k"`
			Norm bool `json:"norm_topk_prob"`
		}
		r.read(&p)
		rows := r.tensor("in.x").Shape[0]
		c := newContext(t, 1, rows)
		x := r.in(c, "x")
		gate := NewRouter(NewBuilder(autograd.Heap{}), "gate", x.Shape()[1], RouterConfig{Experts: r.tensor("in.gate").Shape[0], TopK: p.K, Normalize: p.Norm})
		copy(gate.gate.Weight.Tensor.Data, r.tensor("in.gate").Data)
		out := gate.Forward(c, x)
		logits, weights, ids := out.logits, out.weights, out.ids
		experts := logits.Shape()[1]
		// Which experts are chosen is known beforehand, in order of their numbers.
		index, dense := r.ints("out.topk_index"), r.tensor("f64.dense_weights").Float64s()
		up := r.tensor("in.d_dense_weights").Float32s()
		byWeight := func(row int) []int32 {
			chosen := slices.Clone(index[row*p.K : (row+1)*p.K])
			slices.SortFunc(chosen, func(a, b int32) int {
				if dense[row*experts+int(a)] > dense[row*experts+int(b)] {
					return -1
				}
				return 1
			})
			return chosen
		}
		var order []int32
		var want []float64
		var upstream []float32
		for row := range rows {
			for _, e := range byWeight(row) {
				order = append(order, e)
				want = append(want, dense[row*experts+int(e)])
				upstream = append(upstream, up[row*experts+int(e)])
			}
		}
		ids.Keep()
		w := c.Leaf(gate.gate.Weight)
		prog := execute(t, c, []*autograd.Value{logits, weights}, [][]float32{make([]float32, rows*experts), upstream}, x, w)
		equal(t, "experts", prog.Tensor(ids).Int32s(), order)
		r.near("logits", prog.Tensor(logits).Float32s())
		r.nearTo("dense_weights", prog.Tensor(weights).Float32s(), want)
		if p.K == 1 && p.Norm { // the only weight is 1, whatever the logits; the recording has noise
			equal(t, "grad.x", prog.Grad(x).Float32s(), make([]float32, x.Shape().Elems()))
			equal(t, "grad.gate", prog.Grad(w).Float32s(), make([]float32, w.Shape().Elems()))
			return
		}
		r.near("grad.x", prog.Grad(x).Float32s())
		r.near("grad.gate", prog.Grad(w).Float32s())
	})
}

func TestMLPEqualsPublishedCode(t *testing.T) {
	recorded(t, "swiglu", func(t *testing.T, r recording) {
		if r.variant != "mlp" {
			t.Skip("not a whole block with separate projections")
		}
		w := r.tensor("in.gate_proj").Shape
		m := NewMLP(NewBuilder(autograd.Heap{}), "mlp", "mlp", w[1], w[0], false)
		weights := map[string]*Param{"gate_proj": m.in[0].Weight, "up_proj": m.in[1].Weight, "down_proj": m.down.Weight}
		r.block(m, weights, w[1])
	})
}

func TestMoEEqualsPublishedCode(t *testing.T) {
	recorded(t, "moe_qwen3", func(t *testing.T, r recording) {
		var p struct {
			Experts int  `json:"experts"`
			K       int  `json:"top_k"`
			Norm    bool `json:"norm_topk_prob"`
		}
		r.read(&p)
		w := r.tensor("in.gate_proj").Shape
		b := NewBuilder(autograd.Heap{})
		m := NewMoE(b, "mlp", "mlp", MoEConfig{Hidden: w[2], Intermediate: w[1], Router: RouterConfig{Experts: w[0], TopK: p.K, Normalize: p.Norm}})
		// The recording stacks what the files keep one by one: entries of the same name.
		for _, packed := range []*Param{m.gateUp, m.down} {
			for _, e := range packed.Entries {
				copy(e.View(packed.Tensor).Data, r.part("in.", e).Data)
			}
		}
		r.block(m, map[string]*Param{"gate": m.router.gate.Weight, "experts": m.gateUp, "down": m.down}, w[2])
	})
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
		if x, ok := r.file.Tensor(r.variant + ".in." + name); ok {
			copy(p.Tensor.Data, x.Data)
		}
		wrt, names = append(wrt, c.Leaf(p)), append(names, name)
	}
	values, grads := run(r.t, c, []*autograd.Value{m.Forward(c, wrt[0])}, [][]float32{r.tensor("in.d_y").Float32s()}, wrt...)
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
