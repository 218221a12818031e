package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y. What a query does not see is not read: it may be anything.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	f, q, y := c.Facts, c.Input("q").Float32s(), c.Output("y").Float32s()
	k, v := c.Input("k_cache").Float32s(), c.Input("v_cache").Float32s()
	clear(y) // of tokens that see nothing
	sum := make([]float64, f.HeadDim)
	each(c, func(t int, slots []int) {
		p := make([]float64, len(slots))
		for h := range f.Heads {
			at := func(slot int) int { return (slot*f.KVHeads + h/(f.Heads/f.KVHeads)) * f.HeadDim }
			row := (t*f.Heads + h) * f.HeadDim
			for j, s := range slots {
				p[j] = dot(q[row:][:f.HeadDim], k[at(s):]) * f.Scale
			}
			softmax(p)
			clear(sum)
			for j, s := range slots {
				for i, x := range v[at(s):][:f.HeadDim] {
					sum[i] += p[j] * float64(x)
				}
			}
			for i, x := range sum {
				y[row+i] = float32(x)
			}
		}
	})
	return nil
}

// each calls f for every token of a sequence that sees any, with the slots of the caches that it sees.
func each(c *core.Call, f func(t int, slots []int)) {
	tables, size, t := c.Input("block_tables"), c.Facts.BlockSize, 0
	places, lens := tables.Shape[1], c.Input("seq_lens").Int32s()
	for b, n := range c.Input("query_lens").Int32s() {
		for i := range int(n) {
			position, first := int(lens[b])-int(n)+i, 0
			if w := c.Facts.Window; w > 0 {
				first = max(0, position+1-w)
			}
			var slots []int
			for j := first; j <= position; j++ {
				slots = append(slots, int(tables.Int32s()[b*places+j/size])*size+j%size)
			}
			if len(slots) > 0 {
				f(t, slots)
			}
			t++
		}
	}
}

// softmax replaces scores by probabilities. The largest is taken off first, so that none overflows.
func softmax(s []float64) {
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
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
