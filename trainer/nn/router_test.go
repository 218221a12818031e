package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

func TestTopKTakesTheLargestAndOfEqualOnesTheFirst(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	tests := []struct {
		name string
		row  []float32
		ids  []int32
	}{
		{"distinct", []float32{0.1, 0.4, 0.2, 0.3}, []int32{1, 3}},
		{"all equal", []float32{0.25, 0.25, 0.25, 0.25}, []int32{0, 1}},
		{"equal at the border", []float32{0.2, 0.5, 0.2, 0.2}, []int32{1, 0}},
		{"equal at the top", []float32{0.1, 0.3, 0.2, 0.3}, []int32{1, 3}},
		{"one of one", []float32{-3}, []int32{0}},
		{"all of them", []float32{1, 3, 2}, []int32{1, 2, 0}},
		{"the first of them", []float32{1, 3, 2}, []int32{1}},
		{"infinities", []float32{-inf, 0, inf, 1}, []int32{2, 3}},
		{"only minus infinity", []float32{-inf, -inf, -inf}, []int32{0, 1}},
		{"NaN comes first", []float32{1, nan, 2, nan}, []int32{1, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values, ids := make([]float32, len(tt.ids)), make([]int32, len(tt.ids))
			largest(tt.row, values, ids)
			equal(t, "ids", ids, tt.ids)
			for i, id := range ids {
				if v := tt.row[id]; values[i] != v && (v == v || values[i] == values[i]) {
					t.Errorf("value %d is %v, want %v", i, values[i], v)
				}
			}
		})
	}
}

func TestTopKSendsTheGradientToWhatItTook(t *testing.T) {
	c := newContext(t, 1, 2)
	x := param(c, "x", []float32{3, 1, 2, 1, 1, 1}, 2, 3)
	values, _ := topK(c.G, x, 2)
	_, grads := run(t, c, []*autograd.Value{values}, [][]float32{{10, 20, 30, 40}}, x)
	equal(t, "gradient", grads[0], []float32{10, 0, 20, 30, 40, 0})
}

func TestNormalizedWeightsOfATokenSumToOne(t *testing.T) {
	for k := 1; k <= 8; k++ {
		c := newContext(t, 1, 50)
		weights, _ := topK(c.G, softmaxRows(c.G, param(c, "x", normal(newRand(1), 50*8), 50, 8)), k)
		v := forward(t, c, normalizeRows(c.G, weights, 0))
		for r := range 50 {
			if s := sum64(v[r*k : (r+1)*k]); !(math.Abs(s-1) <= 0x1p-22) {
				t.Fatalf("K=%d: row %d sums to %v", k, r, s)
			}
		}
	}
}

func TestPermuteSortsByExpertAndKeepsTheOrderOfTokens(t *testing.T) {
	ids := []int32{3, 0, 1, 3, 3, 1}
	where, offsets := make([]int32, len(ids)), make([]int32, 6)
	countingSort(ids, where, offsets)
	equal(t, "rows", where, []int32{3, 0, 1, 4, 5, 2})
	equal(t, "offsets", offsets, []int32{0, 1, 3, 3, 6, 6})
}

func TestUnpermuteUndoesPermute(t *testing.T) {
	const tokens, width = 17, 5
	for _, k := range []int{1, 2, 4} {
		c := newContext(t, 1, tokens)
		rng := newRand(uint64(k))
		x := normal(rng, tokens*width)
		ids := make([]int32, 0, tokens*k)
		for range tokens {
			for _, e := range rng.Perm(4)[:k] {
				ids = append(ids, int32(e))
			}
		}
		weights := make([]float32, tokens*k)
		for i := range weights {
			weights[i] = 1 / float32(k) // powers of two: no rounding
		}
		px := param(c, "x", x, tokens, width)
		rows := permute(c.G, px, c.G.Input("ids", core.FromInt32(ids, tokens, k)), 4)
		weighed := weigh(c.G, rows.x, c.G.Input("weights", core.FromFloat32(weights, tokens, k)), rows.where)
		back := unpermute(c.G, weighed, rows.where)
		dy := normal(rng, tokens*width)
		values, grads := run(t, c, []*autograd.Value{back}, [][]float32{dy}, px)
		equal(t, "tokens", values[0], x)
		equal(t, "gradient", grads[0], dy)
	}
}

func TestAnExpertWithoutTokenHasNoGradient(t *testing.T) {
	const experts = 4
	d := newDecoder(t, tiny(oneLayer, withExperts(1, true)), 1)
	moe := d.layers[0].block.(*MoE)
	// The router's first expert wins: the others see no token.
	router := moe.router.gate.Weight.Tensor.Float32s()
	clear(router)
	c := newContext(t, 1, 6)
	fill(t, c, randomBatch(newRand(1), 1, 6, d.Vocab()))
	prog, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := prog.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Param{moe.gateUp, moe.down} {
		n := p.Tensor.Elems() / experts
		g := prog.Gradient(p)
		if slices.Max(g[:n]) == 0 {
			t.Errorf("%s: the expert of all tokens has no gradient", p.Name)
		}
		equal(t, p.Name, g[n:], make([]float32, len(g)-n))
	}
}

// TestWhatWeightsAreIsAFact of the experts' site: a kernel may rely on it.
func TestWhatWeightsAreIsAFact(t *testing.T) {
	for _, tt := range []struct {
		router RouterConfig
		want   core.Routing
	}{
		{RouterConfig{}, core.RoutingSoftmax},
		{RouterConfig{Scale: 1}, core.RoutingSoftmax},
		{RouterConfig{Normalize: true}, core.RoutingNormalized},
		{RouterConfig{Normalize: true, Sigmoid: true}, core.RoutingNormalized},
		{RouterConfig{Sigmoid: true}, core.RoutingAny},
		{RouterConfig{Scale: 2.5}, core.RoutingAny},
		{RouterConfig{Normalize: true, Sigmoid: true, Scale: 2.5}, core.RoutingAny},
	} {
		if got := tt.router.facts(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.router, got, tt.want)
		}
	}
}
