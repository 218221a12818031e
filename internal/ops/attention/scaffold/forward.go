package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y and lse.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	a := newHeads(c)
	y, lse := c.Output("y").Float32s(), c.Output("lse").Float32s()
	clear(y) // of queries without keys
	clear(lse)
	sum := make([]float64, a.d)
	a.each(func(t, h, first int, p []float64, l float64) {
		lse[t*a.H+h] = float32(l)
		clear(sum)
		for j, w := range p {
			for i, v := range a.key(a.v, first+j, h) {
				sum[i] += w * float64(v)
			}
		}
		for i, v := range sum {
			a.query(y, t, h)[i] = float32(v)
		}
	})
	return nil
}

// heads are the inputs of a call.
type heads struct {
	d, H, KV int
	q, k, v  []float32
	keys     []int32
}

func newHeads(c *core.Call) heads {
	return heads{c.Facts.HeadDim, c.Facts.Heads, c.Facts.KVHeads, c.Input("q").Float32s(),
		c.Input("k").Float32s(), c.Input("v").Float32s(), c.Input("keys").Int32s()}
}

// query returns what x [T,H,d] has for token t and head h.
func (a heads) query(x []float32, t, h int) []float32 { return x[(t*a.H+h)*a.d:][:a.d] }

// key returns what x [T,KV,d] has for token j and the key head that head h uses.
func (a heads) key(x []float32, j, h int) []float32 { return x[(j*a.KV+h/(a.H/a.KV))*a.d:][:a.d] }

// each calls f for every token and head that sees keys, with the first of them, their
// probabilities and lse. Scores are in float64: their exponentials are wrong by as much
// as they are. The probabilities are there until f returns.
func (a heads) each(f func(t, h, first int, p []float64, lse float64)) {
	room := make([]float64, len(a.keys)/2)
	for t := range room {
		first, end := int(a.keys[2*t]), int(a.keys[2*t+1])
		for h := 0; h < a.H && first < end; h++ {
			p := room[:end-first]
			for j := range p {
				p[j] = dot(a.query(a.q, t, h), a.key(a.k, first+j, h)) / math.Sqrt(float64(a.d))
			}
			lse := softmax(p)
			f(t, h, first, p, lse)
		}
	}
}

// softmax replaces scores by probabilities, and returns the logarithm of the sum of their
// exponentials. The largest is taken off first, so that none overflows.
func softmax(s []float64) (lse float64) {
	high, sum := s[0], 0.0
	for _, v := range s {
		high = max(high, v)
	}
	for j, v := range s {
		s[j] = math.Exp(v - high)
		sum += s[j]
	}
	for j := range s {
		s[j] /= sum
	}
	return high + math.Log(sum)
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
