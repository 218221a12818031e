package reference

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// attention is the state of one call: q [T,H,d], k and v [T,KV,d], keys [T,2].
type attention[F float] struct {
	f       core.Facts
	q, k, v []F
	keys    []int32
}

func runAttention[F float](c *core.Call) {
	a := attention[F]{c.Facts, values[F](c.Input("q")), values[F](c.Input("k")), values[F](c.Input("v")),
		c.Input("keys").Int32s()}
	if c.Pass == core.Forward {
		y, lse := a.forward()
		store(c.Output("y"), y)
		store(c.Output("lse"), lse)
		return
	}
	dq, dk, dv := a.backward(values[F](c.Input("dy")))
	store(c.Output("dq"), dq)
	store(c.Output("dk"), dk)
	store(c.Output("dv"), dv)
}

// forward returns y [T,H,d] and lse [T,H]; both are 0 for a query without keys.
func (a attention[F]) forward() (y, lse []F) {
	y, lse = make([]F, len(a.q)), make([]F, len(a.q)/a.f.HeadDim)
	a.each(func(t, h int, first, end int) {
		p, l := a.probabilities(t, h, first, end)
		lse[t*a.f.Heads+h] = l
		out := row(y, t, h, a.f.Heads, a.f.HeadDim)
		for j, pj := range p {
			axpy(out, pj, row(a.v, first+j, a.group(h), a.f.KVHeads, a.f.HeadDim))
		}
	})
	return y, lse
}

// backward computes the probabilities and y again: the saved ones are only as precise
// as their storage.
func (a attention[F]) backward(dy []F) (dq, dk, dv []F) {
	d, H, KV := a.f.HeadDim, a.f.Heads, a.f.KVHeads
	dq, dk, dv = make([]F, len(a.q)), make([]F, len(a.k)), make([]F, len(a.v))
	a.each(func(t, h int, first, end int) {
		g := a.group(h)
		p, _ := a.probabilities(t, h, first, end)
		dyt := row(dy, t, h, H, d)
		dp := make([]F, len(p))
		var mean F // of dp under p, which is dy . y
		for j := range p {
			dp[j] = dot(dyt, row(a.v, first+j, g, KV, d))
			mean += p[j] * dp[j]
		}
		for j := range p {
			ds := p[j] * (dp[j] - mean) * a.scale()
			axpy(row(dv, first+j, g, KV, d), p[j], dyt)
			axpy(row(dq, t, h, H, d), ds, row(a.k, first+j, g, KV, d))
			axpy(row(dk, first+j, g, KV, d), ds, row(a.q, t, h, H, d))
		}
	})
	return dq, dk, dv
}

// each calls f for every query that sees a key.
func (a attention[F]) each(f func(t, h, first, end int)) {
	for t := range len(a.keys) / 2 {
		if first, end := int(a.keys[2*t]), int(a.keys[2*t+1]); first < end {
			for h := range a.f.Heads {
				f(t, h, first, end)
			}
		}
	}
}

// probabilities returns the weights of keys [first, end) for a query, and the logarithm
// of the sum of their exponentials. Scores are float64 until they are weights, whatever F:
// an exponential makes of the rounding of a score a relative error as large as the score,
// and scores of some hundred are usual where attention is sharp.
func (a attention[F]) probabilities(t, h, first, end int) (p []F, lse F) {
	q, scores := row(a.q, t, h, a.f.Heads, a.f.HeadDim), make([]float64, end-first)
	for j := range scores {
		for i, v := range row(a.k, first+j, a.group(h), a.f.KVHeads, a.f.HeadDim) {
			scores[j] += float64(q[i]) * float64(v)
		}
		scores[j] /= math.Sqrt(float64(a.f.HeadDim))
	}
	sum := softmax(scores)
	p = make([]F, len(scores))
	for j, v := range scores {
		p[j] = F(v)
	}
	return p, F(sum)
}

func (a attention[F]) scale() F { return F(1 / math.Sqrt(float64(a.f.HeadDim))) }

// group returns the key head that query head h uses.
func (a attention[F]) group(h int) int { return h / (a.f.Heads / a.f.KVHeads) }

// row returns head h of token t of x [T,heads,d].
func row[F float](x []F, t, h, heads, d int) []F { return x[(t*heads+h)*d:][:d] }

func axpy[F float](dst []F, a F, x []F) {
	for i, v := range x {
		dst[i] += a * v
	}
}

// softmax replaces z by its softmax and returns the logarithm of the sum of exp(z).
func softmax[F float](z []F) (lse F) {
	high := z[0]
	for _, v := range z {
		high = max(high, v)
	}
	var sum F
	for i, v := range z {
		z[i] = F(math.Exp(float64(v - high)))
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
	return high + F(math.Log(float64(sum)))
}
