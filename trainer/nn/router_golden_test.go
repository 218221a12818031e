package nn

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

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
	gate := NewRouter(NewBuilder(autograd.Heap{}), "gate", "gate", x.Shape()[1], cfg)
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
