package nn

import (
	"context"
	"math"
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
		values, grads := run(t, c, []*autograd.Value{e.Forward(c)}, [][]float32{r.tensor("in.d_y").Float32s()}, c.Leaf(e.Weight))
		r.near("y", values[0])
		r.near("grad.weight", grads[0])
	})
}

func TestRouterEqualsPublishedCode(t *testing.T) {
	for _, op := range []string{"router_softmax", "router_glm"} {
		recorded(t, op, func(t *testing.T, r recording) { r.router(op == "router_glm") })
	}
}

// routerConfig reads what the recordings of routers and of sparse blocks say.
func (r recording) routerConfig(sigmoid bool) RouterConfig {
	r.t.Helper()
	var p struct {
		Experts   int     `json:"experts"`
		K         int     `json:"top_k"`
		Normalize bool    `json:"norm_topk_prob"`
		Groups    int     `json:"n_group"`
		TopGroups int     `json:"topk_group"`
		Scale     float64 `json:"routed_scaling_factor"`
	}
	r.read(&p)
	return RouterConfig{Experts: p.Experts, TopK: p.K, Normalize: p.Normalize, Sigmoid: sigmoid, Bias: sigmoid,
		Groups: p.Groups, TopGroups: p.TopGroups, Scale: p.Scale}
}

func (r recording) router(sigmoid bool) {
	t, cfg := r.t, r.routerConfig(sigmoid)
	rows := r.tensor("in.x").Shape[0]
	c := newContext(t, 1, rows)
	x := r.in(c, "x")
	gate := NewRouter(NewBuilder(autograd.Heap{}), "gate", x.Shape()[1], cfg)
	copy(gate.gate.Weight.Tensor.Data, r.tensor("in.gate").Data)
	if sigmoid {
		copy(gate.bias.Tensor.Data, r.tensor("in.bias").Data)
	}
	out := gate.Forward(c, x)
	order, want, upstream := r.routed(cfg)
	out.ids.Keep()
	w := c.Leaf(gate.gate.Weight)
	zeros := make([]float32, rows*cfg.Experts)
	weights := sortRows(c, out)
	prog := execute(t, c, []*autograd.Value{out.logits, weights}, [][]float32{zeros, upstream}, x, w)
	r.near("logits", prog.Tensor(out.logits).Float32s())
	ids, got := slices.Clone(prog.Tensor(out.ids).Int32s()), slices.Clone(prog.Tensor(weights).Float32s())
	dx, same := prog.Grad(x).Float32s(), true
	for row := range rows {
		mine, theirs := ids[row*cfg.TopK:(row+1)*cfg.TopK], order[row*cfg.TopK:(row+1)*cfg.TopK]
		slices.Sort(mine)
		if slices.Equal(mine, theirs) {
			continue
		}
		if !r.tied(cfg, row, mine, theirs) {
			t.Errorf("token %d goes to experts %v, want %v", row, mine, theirs)
		}
		// Another of equal experts: nothing of this token can be compared.
		same = false
		for i := range mine {
			got[row*cfg.TopK+i] = float32(want[row*cfg.TopK+i])
		}
		width := x.Shape()[1]
		for i, v := range r.tensor("f64.grad.x").Float64s()[row*width : (row+1)*width] {
			dx[row*width+i] = float32(v)
		}
	}
	r.nearTo("dense_weights", got, want)
	if cfg.TopK == 1 && cfg.Normalize { // the only weight is 1, whatever the logits; the recording has noise
		equal(t, "grad.x", dx, make([]float32, x.Shape().Elems()))
		equal(t, "grad.gate", prog.Grad(w).Float32s(), make([]float32, w.Shape().Elems()))
		return
	}
	r.near("grad.x", dx)
	if same {
		r.near("grad.gate", prog.Grad(w).Float32s())
	}
}

// tied reports whether two choices for a token differ only in experts outside of its
// groups, whose scores are all 0: which of these comes first is nowhere said.
func (r recording) tied(cfg RouterConfig, row int, a, b []int32) bool {
	if cfg.Groups < 2 {
		return false
	}
	size := cfg.Experts / cfg.Groups
	logits, bias := r.tensor("f64.logits").Float64s()[row*cfg.Experts:][:cfg.Experts], r.tensor("in.bias").Float32s()
	sums, kept := make([]float32, cfg.Groups), make([]int32, cfg.TopGroups)
	for i := range sums {
		var scores []float32
		for e := i * size; e < (i+1)*size; e++ {
			scores = append(scores, float32(1/(1+math.Exp(-logits[e])))+bias[e])
		}
		sums[i] = twoBest(scores)
	}
	largest(sums, make([]float32, cfg.TopGroups), kept)
	for _, e := range slices.Concat(a, b) {
		if slices.Contains(a, e) != slices.Contains(b, e) && slices.Contains(kept, int32(int(e)/size)) {
			return false
		}
	}
	return true
}

// routed returns the experts of each token in order of their numbers, their weights and
// the gradients of these.
func (r recording) routed(cfg RouterConfig) (ids []int32, weights []float64, upstream []float32) {
	ids = r.ints("out.topk_index")
	dense, up := r.tensor("f64.dense_weights").Float64s(), r.tensor("in.d_dense_weights").Float32s()
	for i, e := range ids {
		at := i/cfg.TopK*cfg.Experts + int(e)
		weights, upstream = append(weights, dense[at]), append(upstream, up[at])
	}
	return ids, weights, upstream
}

// sortRows records the weights of each token in the order of its experts' numbers.
func sortRows(c *Context, r routes) *autograd.Value {
	t, k := r.ids.Shape()[0], r.ids.Shape()[1]
	place := func(ids []int32, i int) int {
		at := i / k * k
		rank := at
		for _, other := range ids[at : at+k] {
			if other < ids[i] {
				rank++
			}
		}
		return rank
	}
	return c.G.Apply(autograd.Op{Name: "sort", Outputs: []autograd.Spec{autograd.Float32(t, k)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			for i, w := range in[0].Float32s() {
				out[0].Float32s()[place(in[1].Int32s(), i)] = w
			}
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{1}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			for i := range g.DIn[0].Float32s() {
				g.DIn[0].Float32s()[i] = g.DOut[0].Float32s()[place(g.In[1].Int32s(), i)]
			}
			return nil
		}},
	}, r.weights, r.ids)
}

func TestMLPEqualsPublishedCode(t *testing.T) {
	recorded(t, "swiglu", func(t *testing.T, r recording) {
		b := NewBuilder(autograd.Heap{})
		switch r.variant {
		case "mlp":
			w := r.tensor("in.gate_proj").Shape
			m := NewMLP(b, "mlp", "mlp", w[1], w[0], false)
			r.block(m, map[string]*Param{"gate_proj": m.in[0].Weight, "up_proj": m.in[1].Weight, "down_proj": m.down.Weight}, w[1])
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
