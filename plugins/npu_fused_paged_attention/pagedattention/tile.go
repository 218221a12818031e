package pagedattention

import (
	"math"

	"github.com/seed98097648/tune/core/vector"
)

// gap is what lies between rows of scores, so that they do not lie a power of two apart, and that a panel may
// exceed.
const gap = 64

// worker is what one goroutine needs for its tasks.
type worker struct {
	*call
	queries, keys, values []float32 // of a head, or of the heads of a group, in float32
	scores                []float32
	sums                  []float32     // of single tokens: parts; of tiles: y, high and total
	keysAcross            vector.Panels // k^T [C,n]
	valuesAlong           vector.Panels // v [n,C]
}

// tile computes y of several tokens of a sequence. Row r of it is head r%group of token r/group.
func (w *worker) tile(t task) {
	group, C, n := w.group, w.facts.HeadDim, t.tokens*w.group
	q := vector.Grow(&w.queries, n*C)
	for i := range t.tokens {
		w.q.load(q[i*group*C:], (t.token+i)*w.facts.Heads+t.head*group, group, 1)
	}
	vector.Scale(q, q, w.scale)
	room := vector.Grow(&w.sums, n*(C+2))
	sum := part{room[:n*C], room[n*C:][:n], room[n*(C+1):][:n]}
	clear(room)
	for r := range n {
		sum.high[r] = float32(math.Inf(-1))
	}
	for at := t.lo; at < t.hi; at += tileTokens {
		end := min(at+tileTokens, t.hi)
		if !w.pack(t, at, end) {
			w.oneByOne(t)
			return
		}
		for r := 0; r < n; r += vector.PanelRows() {
			w.strip(t, q, sum, r, min(r+vector.PanelRows(), n), at, end)
		}
	}
	for r := range n {
		w.y.store(sum.y[r*C:][:C], (t.token+r/group)*w.facts.Heads+t.head*group+r%group, inverse(sum.total[r]))
	}
}

// pack packs tokens [at, end) of the context. It returns false if a value is not finite: products would carry it to
// queries that do not see it.
func (w *worker) pack(t task, at, end int) bool {
	C, n := w.facts.HeadDim, end-at
	keys, values := vector.Grow(&w.keys, n*C), vector.Grow(&w.values, n*C)
	w.runs(t.sequence, at, end, func(j, slot, some int) {
		w.k.load(keys[j*C:], w.row(slot, t.head), some, w.facts.KVHeads)
		w.v.load(values[j*C:], w.row(slot, t.head), some, w.facts.KVHeads)
	})
	if s := vector.SumSquares(values); math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	w.keysAcross.Pack(C, n, keys, C, true)
	w.valuesAlong.Pack(n, C, values, C, false)
	return true
}

// oneByOne computes y of a tile as that of single tokens.
func (w *worker) oneByOne(t task) {
	for i := range t.tokens {
		one := task{sequence: t.sequence, head: t.head, token: t.token + i, tokens: 1, position: t.position + i}
		one.lo, one.hi = w.first(one.position), one.position+1
		w.single(one)
	}
}

// strip adds what tokens [at, end) of the context, which are packed, are to rows [from, to).
func (w *worker) strip(t task, q []float32, sum part, from, to, at, end int) {
	C, stride := w.facts.HeadDim, tileTokens+gap
	lo := max(at, w.first(t.position+from/w.group))
	hi := min(end, t.position+(to-1)/w.group+1)
	if lo >= hi {
		return
	}
	scores, start := vector.Grow(&w.scores, (to-from)*stride), vector.PanelStart(lo-at)
	w.keysAcross.Multiply(vector.Strip{M: to - from, K1: C, N0: start, N1: vector.PanelEnd(hi - at),
		A: q[from*C:], StrideA: C, C: scores[start:], StrideC: stride})
	for r := from; r < to; r++ {
		position := t.position + r/w.group
		first := max(lo, w.first(position))
		last := max(first, min(hi, position+1))
		row := scores[(r-from)*stride:][:end-at]
		clear(row[lo-at : min(first, hi)-at])
		clear(row[min(last, hi)-at : hi-at])
		if first < last {
			w.weigh(row[first-at:last-at], sum, r)
		}
	}
	w.valuesAlong.Multiply(vector.Strip{M: to - from, K0: lo - at, K1: hi - at, N1: C,
		A: scores[lo-at:], StrideA: stride, C: sum.y[from*C:], StrideC: C, Accumulate: true})
}

// weigh turns scores of a row into exponentials relative to the highest so far, and what there is of the row
// into that.
func (w *worker) weigh(scores []float32, sum part, r int) {
	C, high := w.facts.HeadDim, max(sum.high[r], vector.Max(scores))
	if a := shrink(sum.high[r], high); a != 1 {
		y := sum.y[r*C:][:C]
		vector.Scale(y, y, a)
		sum.total[r] *= a
	}
	sum.high[r] = high
	sum.total[r] += float32(vector.ExpSum(scores, scores, 1, shift(high)))
}
