package attention

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// forwardKeys is about how many keys meet a few queries at a time in Forward. More would
// need more memory; fewer, that what there is of y shrinks more often.
const forwardKeys = 1024

// Forward computes y and lse.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	call := newCall(c)
	return k.run(ctx, call, tasks(c.Facts, call.keys), (*worker).forward)
}

func (w *worker) forward(t task) {
	n, C := t.hi-t.lo, w.facts.HeadDim
	rows, stride := w.k.keyRows(&w.wide, t)
	w.keysAcross.Pack(C, n, rows, stride, true)
	rows, stride = w.v.keyRows(&w.wide, t)
	w.values.Pack(n, C, rows, stride, false)
	t.blocks(w.facts, func(b, next queries) {
		q := w.q.queryRows(&w.queries, b, w.scale)
		for at := b.from; at < b.to; at += vector.PanelRows() {
			end := min(at+vector.PanelRows(), b.to)
			for r := at; r < end; r++ {
				w.y.ahead(b, r-b.from)
				w.q.ahead(next, r-b.from)
			}
			w.forwardQueries(t, q[(at-b.from)*C:], b.head, at, end)
		}
	})
}

// forwardQueries computes the rows of y and lse of a few queries.
func (w *worker) forwardQueries(t task, q []float32, head, from, to int) {
	C, chunk := w.facts.HeadDim, vector.PanelStart(forwardKeys)
	stride := chunk + gap
	scores, y := vector.Grow(&w.scores, (to-from)*stride), vector.Grow(&w.out, (to-from)*C)
	clear(y)
	for r := range to - from {
		w.high[r], w.total[r] = float32(math.Inf(-1)), 0
	}
	first, end := w.keys.union(from, to, t.lo, t.hi)
	for at := vector.PanelStart(first); at < end; at += chunk {
		last := min(at+chunk, end)
		w.keysAcross.Multiply(vector.Strip{M: to - from, K1: C, N0: at, N1: vector.PanelEnd(last), A: q, StrideA: C, C: scores, StrideC: stride})
		for r := range to - from {
			w.softmax(r, scores[r*stride:][:last-at], y[r*C:][:C], from+r, t.lo+at)
		}
		lo := max(at, first)
		w.values.Multiply(vector.Strip{M: to - from, K0: lo, K1: last, N1: C, A: scores[lo-at:], StrideA: stride, C: y, StrideC: C, Accumulate: true})
	}
	for r := range to - from {
		w.finish(r, y[r*C:][:C], head, from+r)
	}
}

// softmax turns the scores of query t with some keys, the first of which is key at, into
// exponentials relative to the highest score so far, and y and the sum of exponentials
// into that. What the query does not see becomes 0.
func (w *worker) softmax(r int, scores, y []float32, t, at int) {
	first, end := w.keys.within(t, at, at+len(scores))
	clear(scores[:first])
	clear(scores[end:])
	if first == end {
		return
	}
	seen := scores[first:end]
	high := max(w.high[r], vector.Max(seen))
	if w.total[r] != 0 && high != w.high[r] {
		shrink := math.Exp(float64(w.high[r] - high))
		vector.Scale(y, y, float32(shrink))
		w.total[r] *= shrink
	}
	w.high[r] = high
	if math.IsInf(float64(high), -1) {
		high = 0 // so that all become 0, and not NaN: a finite score may follow
	}
	w.total[r] += vector.ExpSum(seen, seen, 1, high)
}

// finish writes the row of a query.
func (w *worker) finish(r int, y []float32, head, t int) {
	var lse, factor float32
	if first, end := w.keys.of(t); first < end {
		total := w.total[r]
		if total == 0 { // every score is -Inf
			total = math.NaN()
		}
		factor = float32(1 / total)
		lse = float32(float64(w.high[r]) + math.Log(total))
	}
	w.y.store(y, t, head, factor)
	w.lse[t*w.facts.Heads+head] = lse
}
