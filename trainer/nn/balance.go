package nn

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// balance records the load-balancing loss of Switch Transformer (Fedus et al., 2021), as
// Hugging Face's load_balancing_loss_func computes it over the routers of all layers
// together, times weight, and the z-loss of the same routers times z. With n the pairs of a
// layer and a token that is no padding,
//
//	share_e = how often expert e was chosen / n
//	prob_e  = mean over the pairs of softmax(logits)_e
//	y       = weight * E * sum over e of share_e * prob_e
//	          + z * mean over the pairs of log(sum over e of exp(logits_e))^2
//
// The shares are constants to the gradient, which reaches the routers through the
// probabilities. Of several batches whose gradients are accumulated, each has a part of the
// weight, in proportion to its targets. It returns nil if there is neither weight nor z, or no router.
func balance(c *Context, weight, z float64) *autograd.Value {
	if weight == 0 && z == 0 || len(c.routed) == 0 {
		return nil
	}
	b := &balancing{weight: weight, z: z, layers: len(c.routed), tokens: c.T(), rowLength: c.S,
		experts: c.routed[0].logits.Shape()[1]}
	var logits, ids []*autograd.Value
	for _, r := range c.routed {
		logits, ids = append(logits, r.logits), append(ids, r.ids)
	}
	// Its output is a vector of one element: gorgonia's graph ends at one scalar, the loss.
	return c.G.ApplyAll(b.op(), append(append(logits, ids...), c.keys, c.labels, c.divisor)...)[0]
}

// balancing is the operation: its inputs are the logits [T, E] of every layer, the ids
// [T, K] of every layer, and the batch's keys, labels and divisor.
type balancing struct {
	weight, z                          float64
	layers, tokens, rowLength, experts int
}

func (b *balancing) op() autograd.Op {
	back := &autograd.Backward{Outputs: []int{1}, Run: b.backward}
	for i := range b.layers {
		back.Inputs, back.Wrt, back.Accumulate = append(back.Inputs, i), append(back.Wrt, i), append(back.Accumulate, i)
	}
	back.Inputs = append(back.Inputs, 2*b.layers) // the keys
	// Saved is, for each expert, what one more of a token's probability adds to y; and at the end
	// twice what the square of a token's log-sum is multiplied by.
	return autograd.Op{Name: "balance", Outputs: []autograd.Spec{autograd.Float32(1), autograd.Float32(b.experts + 1)},
		Forward: b.forward, Backward: back}
}

func (b *balancing) forward(_ context.Context, in, out []core.Tensor) error {
	keys, labels, divisor := in[2*b.layers].Int32s(), in[2*b.layers+1].Int32s(), in[2*b.layers+2].Float32s()[0]
	chosen, probs, row := make([]float64, b.experts), make([]float64, b.experts), make([]float64, b.experts)
	n, squares := 0, 0.0
	for layer := range b.layers {
		logits, ids := in[layer].Float32s(), in[b.layers+layer].Int32s()
		k := len(ids) / b.tokens
		for t := range b.tokens {
			if !seesItself(keys, t) {
				continue
			}
			n++
			for _, e := range ids[t*k : (t+1)*k] {
				chosen[e]++
			}
			lse := softmax64(row, logits[t*b.experts:])
			for e, p := range row {
				probs[e] += p
			}
			squares += float64(lse * lse)
		}
	}
	y, slope := 0.0, out[1].Float32s()
	clear(slope)
	if n > 0 {
		targets := 0
		for t := range b.tokens {
			if target(labels, t, b.rowLength) >= 0 {
				targets++
			}
		}
		share := float64(targets) / float64(divisor)
		scale := b.weight * share * float64(b.experts) / float64(n) / float64(n)
		y = b.z * share * squares / float64(n)
		slope[b.experts] = float32(2 * b.z * share / float64(n))
		for e := range b.experts {
			y += float64(scale * chosen[e] * probs[e])
			slope[e] = float32(scale * chosen[e])
		}
	}
	out[0].Float32s()[0] = float32(y)
	return nil
}

// backward: with s the slopes and p the probabilities of a token,
// dlogits_e = dy * p_e * (s_e - sum over i of p_i s_i + s_z * lse).
func (b *balancing) backward(_ context.Context, g *autograd.Grads) error {
	dy, slope, keys := float64(g.DOut[0].Float32s()[0]), g.Out[1].Float32s(), g.In[2*b.layers].Int32s()
	slope, z := slope[:b.experts], float64(slope[b.experts])
	for layer := range b.layers {
		if g.DIn[layer].IsZero() {
			continue
		}
		logits, d := g.In[layer].Float32s(), g.DIn[layer].Float32s()
		simd.Parallel(b.tokens, max(1, grain/b.experts), func(lo, hi int) {
			p := make([]float64, b.experts)
			for t := lo; t < hi; t++ {
				row := d[t*b.experts : (t+1)*b.experts]
				if !g.Add[layer] {
					clear(row)
				}
				if !seesItself(keys, t) {
					continue
				}
				mean := -z * softmax64(p, logits[t*b.experts:])
				for e, s := range slope {
					mean += float64(p[e] * float64(s))
				}
				for e, s := range slope {
					row[e] += float32(dy * p[e] * (float64(s) - mean))
				}
			}
		})
	}
	return nil
}

// seesItself reports whether a token is no padding, by the keys of its graph.
func seesItself(keys []int32, t int) bool { return int(keys[2*t+1]) > t }

// softmax64 writes the softmax of the first len(p) elements of x, and returns the logarithm of the
// sum of their exponentials.
func softmax64(p []float64, x []float32) float64 {
	x = x[:len(p)]
	high, sum := float64(simd.Max(x)), 0.0
	for i, v := range x {
		p[i] = math.Exp(float64(v) - high)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return high + math.Log(sum)
}

// plus returns an operation whose first output is a number, with one more input, the n-th:
// a number that is added to it.
func plus(op autograd.Op, n int) autograd.Op {
	forward, back := op.Forward, *op.Backward
	op.Forward = func(ctx context.Context, in, out []core.Tensor) error {
		if err := forward(ctx, in[:n], out); err != nil {
			return err
		}
		out[0].Float32s()[0] += in[n].Float32s()[0]
		return nil
	}
	back.Through = []int{n}
	op.Backward = &back
	return op
}
