package pagedattention

import (
	"math"

	"github.com/seed98097648/tune/core/vector"
)

// part is what some tokens of the context are to a single token, for each head of a group: the highest score,
// and relative to it the sum of exponentials and of what these weigh.
type part struct{ y, high, total []float32 } // [group,C], [group], [group]

func partSize(c *call) int { return c.group * (c.facts.HeadDim + 2) }

func newPart(c *call, room []float32) part {
	n, C := c.group, c.facts.HeadDim
	return part{room[:n*C], room[n*C:][:n], room[n*(C+1):][:n]}
}

// single computes y of a single token, part by part.
func (w *worker) single(t task) {
	size := partSize(w.call)
	room := vector.Grow(&w.sums, 2*size)
	sum, next := newPart(w.call, room[:size]), newPart(w.call, room[size:])
	into, hi := sum, t.hi
	for at := t.lo; at < hi; at = t.hi {
		t.lo, t.hi = at, min(hi, (at/partTokens+1)*partTokens)
		w.partOf(t, &into)
		if &into.y[0] != &sum.y[0] {
			sum.add(into)
		}
		into = next
	}
	w.finish(t, sum)
}

// join computes y of a single token of what its parts have come to.
func (w *worker) join(t task, parts []part) {
	for _, p := range parts[1:] {
		parts[0].add(p)
	}
	w.finish(t, parts[0])
}

// partOf computes a part.
func (w *worker) partOf(t task, to *part) {
	group, C, n := w.group, w.facts.HeadDim, t.hi-t.lo
	q, _ := w.q.some(&w.queries, t.token*w.facts.Heads+t.head*group, group, 1)
	scores := vector.Grow(&w.scores, group*n)
	w.runs(t.sequence, t.lo, t.hi, func(j, slot, some int) {
		keys, stride := w.k.some(&w.keys, w.row(slot, t.head), some, w.facts.KVHeads)
		vector.DotRows(group, some, C, q, C, keys, stride, scores[j:], n)
	})
	for h := range group {
		s := scores[h*n:][:n]
		to.high[h] = w.scale * vector.Max(s)
		to.total[h] = float32(vector.ExpSum(s, s, w.scale, shift(to.high[h])))
	}
	clear(to.y)
	w.runs(t.sequence, t.lo, t.hi, func(j, slot, some int) {
		values, stride := w.v.some(&w.values, w.row(slot, t.head), some, w.facts.KVHeads)
		vector.AddRows(group, some, C, scores[j:], n, values, stride, to.y, C)
	})
}

// shift is what is taken off scores of which this is the highest: with nothing but -Inf they all become 0, and not
// NaN, for a finite one may be in another part.
func shift(high float32) float32 {
	if math.IsInf(float64(high), -1) {
		return 0
	}
	return high
}

// add adds another part.
func (p part) add(q part) {
	C := len(p.y) / len(p.high)
	for h := range p.high {
		high := max(p.high[h], q.high[h])
		a, b := shrink(p.high[h], high), shrink(q.high[h], high)
		y, more := p.y[h*C:][:C], q.y[h*C:][:C]
		if a != 1 {
			vector.Scale(y, y, a)
		}
		vector.Axpy(b, more, y)
		p.high[h], p.total[h] = high, a*p.total[h]+b*q.total[h]
	}
}

// shrink is what sums relative to one score are multiplied by to be relative to a higher one. Those of scores
// of -Inf are 0, or NaN, which must not be lost.
func shrink(from, to float32) float32 {
	if from == to || math.IsInf(float64(from), -1) {
		return 1
	}
	return float32(math.Exp(float64(from - to)))
}

// finish writes y of a token for the heads of a group.
func (w *worker) finish(t task, p part) {
	for h := range w.group {
		C := w.facts.HeadDim
		w.y.store(p.y[h*C:][:C], t.token*w.facts.Heads+t.head*w.group+h, inverse(p.total[h]))
	}
}

// inverse of a sum of exponentials, which is 0 if every score is -Inf.
func inverse(total float32) float32 {
	if total == 0 {
		return float32(math.NaN())
	}
	return 1 / total
}
