package gate

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes the weights and the ids.
func (*Kernel) Forward(_ context.Context, c *core.Call) error {
	K := c.Facts.TopK
	weights, ids := c.Output("routing_weights").Float32s(), c.Output("expert_ids").Int32s()
	eachGate(c, func(g *gate, t int) {
		g.score(c.Input("logits"), t)
		ids, weights := ids[t*K:][:K], weights[t*K:][:K]
		g.choose(ids)
		sum := g.denominator(ids)
		for i, e := range ids {
			weights[i] = float32(float64(g.scores[e]) / sum * c.Facts.Scale)
		}
	})
	return nil
}

// Backward computes dlogits from the scores, which it computes again: with d the upstream
// gradient times the scale,
//
//	dp = (d - sum(d*q))/sum(p), or d; it is dscore at the ids, 0 elsewhere
//	dlogits = score*(dscore - sum(dscore*score))     softmax
//	dlogits = dscore*score*(1 - score)               sigmoid
func (*Kernel) Backward(_ context.Context, c *core.Call) error {
	f, ids := c.Facts, c.Input("expert_ids").Int32s()
	dweights, dlogits := c.Input("drouting_weights").Float32s(), c.Output("dlogits")
	eachGate(c, func(g *gate, t int) {
		g.score(c.Input("logits"), t)
		g.gradient(ids[t*f.TopK:][:f.TopK], dweights[t*f.TopK:][:f.TopK])
		vector.Store(dlogits, g.choices, t*f.Experts)
	})
	return nil
}

// gate computes one token at a time.
type gate struct {
	f       core.Facts
	bias    []float32 // [E], nil without
	scores  []float32 // [E]
	choices []float32 // [E]; in the backward pass the gradients of scores, then of logits
	groups  []float32 // [G]
	best    []int32   // [max(2, G)]
}

// eachGate calls f for every token, on all cores.
func eachGate(c *core.Call, f func(g *gate, t int)) {
	E, G := c.Facts.Experts, c.Facts.Groups
	var bias []float32
	if c.Pass == core.Forward && c.Facts.Bias {
		bias = c.Input("bias").Float32s()
	}
	vector.Parallel(c.Tokens(), max(1, gateGrain/E), func(lo, hi int) {
		g := &gate{f: c.Facts, bias: bias, scores: make([]float32, E), choices: make([]float32, E),
			groups: make([]float32, G), best: make([]int32, max(2, G))}
		for t := lo; t < hi; t++ {
			f(g, t)
		}
	})
}

// gateGrain is how many logits are worth another goroutine.
const gateGrain = 1 << 12

// score computes the scores of token t.
func (g *gate) score(logits core.Tensor, t int) {
	s := g.scores
	vector.Load(s, logits, t*len(s))
	if g.f.Scoring == core.ScoringSigmoid {
		vector.Sigmoid(s, s)
		return
	}
	sum := vector.ExpSum(s, s, 1, vector.Max(s))
	vector.Scale(s, s, float32(1/sum))
}

// choose finds the experts of the token.
func (g *gate) choose(ids []int32) {
	if g.bias == nil {
		copy(g.choices, g.scores)
	} else {
		vector.Add(g.choices, g.scores, g.bias)
	}
	if g.f.TopGroups < g.f.Groups {
		g.leaveGroups()
	}
	largest(g.choices, ids)
}

// leaveGroups sets the choices outside the best groups to 0.
func (g *gate) leaveGroups() {
	size := len(g.choices) / len(g.groups)
	for i := range g.groups {
		of, two := g.choices[i*size:][:size], g.best[:2]
		largest(of, two)
		g.groups[i] = of[two[0]] + of[two[1]]
	}
	order := g.best[:len(g.groups)]
	largest(g.groups, order)
	for _, i := range order[g.f.TopGroups:] {
		clear(g.choices[int(i)*size:][:size])
	}
}

// largest finds where the largest of v are, as many as there are ids, by insertion. Of
// equal ones the first comes first, and NaN counts as larger than any number.
func largest(v []float32, ids []int32) {
	n := 0
	for at, x := range v {
		i := n
		for i > 0 && (x > v[ids[i-1]] || x != x && v[ids[i-1]] == v[ids[i-1]]) {
			i--
		}
		if i == len(ids) {
			continue
		}
		n = min(n+1, len(ids))
		copy(ids[i+1:n], ids[i:])
		ids[i] = int32(at)
	}
}

// denominator returns what the scores of a token's experts are divided by.
func (g *gate) denominator(ids []int32) float64 {
	if !g.f.Normalize {
		return 1
	}
	sum := 1e-20
	for _, e := range ids {
		sum += float64(g.scores[e])
	}
	return sum
}

// gradient leaves the gradients of the logits in choices.
func (g *gate) gradient(ids []int32, dweights []float32) {
	sum, mean := g.denominator(ids), 0.0
	if g.f.Normalize {
		for i, e := range ids {
			mean += float64(float64(dweights[i]) * g.f.Scale * (float64(g.scores[e]) / sum))
		}
	}
	d := g.choices
	clear(d)
	for i, e := range ids {
		d[e] += float32((float64(float64(dweights[i])*g.f.Scale) - mean) / sum)
	}
	if g.f.Scoring == core.ScoringSoftmax {
		vector.SoftmaxGrad(d, g.scores, d, vector.Dot(d, g.scores), 1)
		return
	}
	for i, e := range ids {
		if !slices.Contains(ids[:i], e) {
			d[e] *= g.scores[e] * (1 - g.scores[e])
		}
	}
}
