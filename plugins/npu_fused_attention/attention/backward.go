package attention

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// backwardKeys is about how many keys meet a block of queries at a time in Backward, so
// that all that they need stays in the second-level cache.
const backwardKeys = 512

// Backward computes, with p_tj = exp(s_tj - lse_t), delta_t = dy_t . y_t and
// ds_tj = p_tj * (dy_t . v_j - delta_t) / sqrt(C),
//
//	dq_t = sum over j of ds_tj * k_j
//	dk_j = sum over t of ds_tj * q_t
//	dv_j = sum over t of p_tj * dy_t
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	call := newCall(c)
	k.rooms.begin(2 * c.Facts.HeadDim * call.keys.len())
	call.rooms = &k.rooms
	return k.run(ctx, call, tasks(c.Facts, call.keys), (*worker).backward)
}

// store writes the gradients of a key head.
func (w *worker) store(t task, sum []float32) {
	n, C := t.hi-t.lo, w.facts.HeadDim
	for j := range n {
		w.dk.store(sum[j*C:][:C], t.lo+j, t.group, 1)
		w.dv.store(sum[(n+j)*C:][:C], t.lo+j, t.group, 1)
	}
}

func (w *worker) backward(t task) {
	n, C := t.hi-t.lo, w.facts.HeadDim
	rows, stride := w.k.keyRows(&w.wide, t)
	w.keysAcross.Pack(C, n, rows, stride, true)
	w.keysAlong.Pack(n, C, rows, stride, false)
	rows, stride = w.v.keyRows(&w.wide, t)
	w.values.Pack(C, n, rows, stride, true)
	var sum []float32
	if t.shared == nil {
		sum = vector.Grow(&w.sum, 2*n*C)
	} else {
		sum = w.rooms.take(2 * n * C)
	}
	clear(sum)
	t.blocks(w.facts, func(b, next queries) { w.backwardQueries(block{task: t, queries: b, next: next}, sum) })
	if t.shared == nil {
		w.store(t, sum)
	} else {
		w.join(t, sum)
	}
}

// backwardQueries computes dq of a block of queries, and adds their share to dk and dv.
// The sums that make exponentials probabilities, and delta, are those of the exponentials
// themselves: lse and y, rounded as they are, would leave a trace where exact sums
// cancel, as in a row that sees one key.
func (w *worker) backwardQueries(b block, sum []float32) {
	b.first, b.end = w.keys.union(b.from, b.to, b.lo, b.hi)
	b.first = vector.PanelStart(b.first)
	n, C := b.to-b.from, w.facts.HeadDim
	b.stride = vector.PanelEnd(b.end) - b.first + gap
	b.q = w.q.queryRows(&w.queries, b.queries, w.scale)
	b.dy = w.dy.queryRows(&w.gradients, b.queries, 1)
	b.p, b.ds, b.dq = vector.Grow(&w.scores, n*b.stride), vector.Grow(&w.dscores, n*b.stride), vector.Grow(&w.out, n*C)
	clear(b.dq)
	clear(w.total[:n])
	clear(w.delta[:n])
	b.chunks(func(at, last int) { w.exponentials(b, at, last) })
	w.normalize(b)
	b.chunks(func(at, last int) {
		w.queryGradients(b, at, last)
		w.keyGradients(b, sum, at, last)
	})
	for r := range n {
		w.dq.store(b.dq[r*C:][:C], b.from+r, b.head, w.scale*float32(w.total[r]))
	}
}

// block is some queries of a head, and what they have to do with all keys they see.
type block struct {
	task
	queries
	next       queries
	first, end int       // keys of the segment, from the start of a panel on
	q, dy, dq  []float32 // [b,C]
	p, ds      []float32 // [b,stride]: of keys first, first+1, ...
	stride     int
}

// chunks calls do for pieces [at, last) of the keys.
func (b block) chunks(do func(at, last int)) {
	chunk := vector.PanelStart(backwardKeys)
	for at := b.first; at < b.end; at += chunk {
		do(at, min(at+chunk, b.end))
	}
}

// exponentials computes exponentials p and the gradients of probabilities dp, adds up
// what makes p probabilities and delta, and sets to 0 what a query does not see.
func (w *worker) exponentials(b block, at, last int) {
	C := w.facts.HeadDim
	for lo := b.from; lo < b.to; lo += vector.PanelRows() {
		hi, r := min(lo+vector.PanelRows(), b.to), lo-b.from
		first, end := w.keys.union(lo, hi, b.lo+at, b.lo+last)
		start := vector.PanelStart(at + first)
		to := r*b.stride + start - b.first
		s := vector.Strip{M: hi - lo, K1: C, N0: start, N1: vector.PanelEnd(at + end), StrideA: C, StrideC: b.stride}
		s.A, s.C = b.q[r*C:], b.p[to:]
		w.keysAcross.Multiply(s)
		s.A, s.C = b.dy[r*C:], b.ds[to:]
		w.values.Multiply(s)
		for t := lo; t < hi; t++ {
			r, n := t-b.from, last-at
			p, dp := b.p[r*b.stride+at-b.first:][:n], b.ds[r*b.stride+at-b.first:][:n]
			first, end := w.keys.within(t, b.lo+at, b.lo+last)
			for _, x := range [][]float32{p, dp} {
				clear(x[:first])
				clear(x[end:])
			}
			p, dp = p[first:end], dp[first:end]
			w.total[r] += vector.ExpSum(p, p, 1, w.lse[t*w.facts.Heads+b.head])
			w.delta[r] += float64(vector.Dot(p, dp))
			if at == b.first {
				w.dq.ahead(b.queries, r)
			}
		}
	}
}

// normalize takes from the sums of exponentials the factors that make them probabilities.
// What is multiplied by them is the rows of q, dy and, in the end, dq, which are shorter;
// a row without a sum must not reach keys that it does not see.
func (w *worker) normalize(b block) {
	n, C := b.to-b.from, w.facts.HeadDim
	for r := range n {
		if first, end := w.keys.of(b.from + r); first < end {
			w.total[r] = 1 / w.total[r]
			w.delta[r] *= w.total[r]
		}
		if factor := w.total[r]; finite(factor) {
			q, dy := b.q[r*C:][:C], b.dy[r*C:][:C]
			vector.Scale(q, q, float32(factor))
			vector.Scale(dy, dy, float32(factor))
		}
	}
	w.queriesPacked.Pack(n, C, b.q, C, false)
	w.gradientsPacked.Pack(n, C, b.dy, C, false)
}

// queryGradients computes the gradients of scores, up to the factors that a row shares,
// and adds to dq.
func (w *worker) queryGradients(b block, at, last int) {
	C := w.facts.HeadDim
	for lo := b.from; lo < b.to; lo += vector.PanelRows() {
		hi, r := min(lo+vector.PanelRows(), b.to), lo-b.from
		for t := lo; t < hi; t++ {
			first, end := w.keys.within(t, b.lo+at, b.lo+last)
			r := t - b.from
			row := r*b.stride + at - b.first + first
			p, ds := b.p[row:][:end-first], b.ds[row:][:end-first]
			if !finite(w.total[r]) {
				vector.Scale(p, p, float32(w.total[r]))
			}
			vector.SoftmaxGrad(ds, p, ds, float32(w.delta[r]), 1)
			if at == b.first {
				w.q.ahead(b.next, r)
				w.dy.ahead(b.next, r)
			}
		}
		first, end := w.keys.union(lo, hi, b.lo+at, b.lo+last)
		w.keysAlong.Multiply(vector.Strip{M: hi - lo, K0: at + first, K1: at + end, N1: C,
			A: b.ds[r*b.stride+at-b.first+first:], StrideA: b.stride, C: b.dq[r*C:], StrideC: C, Accumulate: true})
	}
}

// keyGradients adds a block's share to dk and dv of keys [at, last) of the segment. The
// factors of p and ds are in dy and q.
func (w *worker) keyGradients(b block, sum []float32, at, last int) {
	C, dk, dv := w.facts.HeadDim, sum[:len(sum)/2], sum[len(sum)/2:]
	low, high := w.keys.common(b.from, b.to, b.lo, b.hi)
	rows := vector.PanelRows()
	for lo, hi := at, at; lo < last; lo = hi {
		hi = min(lo+4*rows, last)
		first, end := 0, b.to-b.from
		if lo < low || hi > high { // fewer keys at a time, for what is seen by none of them is left out
			hi = min(lo+rows, last)
			first, end = w.keys.seen(b.from, b.to, b.lo+lo, b.lo+hi)
		}
		if first == end {
			continue
		}
		a := first*b.stride + lo - b.first
		s := vector.Strip{M: hi - lo, K0: first, K1: end, N1: C, StrideA: b.stride, TransA: true, StrideC: C, Accumulate: true}
		s.A, s.C = b.p[a:], dv[lo*C:]
		w.gradientsPacked.Multiply(s)
		s.A, s.C = b.ds[a:], dk[lo*C:]
		w.queriesPacked.Multiply(s)
	}
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat32 }
