package attention

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// backwardKeys is about how many keys meet a block of queries at a time in Backward, so
// that all that they need stays in the second-level cache.
const backwardKeys = 256

// Backward computes, with p_tj = exp(s_tj - lse_t), delta_t = dy_t . y_t and
// ds_tj = p_tj * (dy_t . v_j - delta_t) / sqrt(C),
//
//	dq_t = sum over j of ds_tj * k_j
//	dk_j = sum over t of ds_tj * q_t
//	dv_j = sum over t of p_tj * dy_t
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	keys, err := k.check(ctx, c)
	if err != nil {
		return err
	}
	all := tasks(c.Facts, keys)
	k.share(all, c.Facts.HeadDim)
	if err := k.run(ctx, c, keys, all, (*worker).backward); err != nil {
		return err
	}
	var shared []task
	for _, t := range all {
		if t.parts > 1 && t.part == 0 {
			shared = append(shared, t)
		}
	}
	return k.run(ctx, c, keys, shared, (*worker).join)
}

// share gives tasks that share a key head room for their parts of dk and dv, those of a
// head one after the other.
func (k *Kernel) share(all []task, C int) {
	size := 0
	for _, t := range all {
		if t.parts > 1 {
			size += 2 * (t.hi - t.lo) * C
		}
	}
	room := grow(&k.parts, size)
	for i, t := range all {
		if t.parts > 1 {
			n := 2 * (t.hi - t.lo) * C
			all[i].sum, room = room[:n*(t.parts-t.part)], room[n:]
		}
	}
}

// join adds up the parts of a key head, to which the first part's room reaches.
func (w *worker) join(t task) {
	n := len(t.sum) / t.parts
	for p := 1; p < t.parts; p++ {
		simd.Add(t.sum[:n], t.sum[:n], t.sum[p*n:(p+1)*n])
	}
	w.store(t, t.sum[:n])
}

// store writes the gradients of a key head.
func (w *worker) store(t task, sum []float32) {
	C, KV := w.facts.HeadDim, w.facts.KVHeads
	dk, dv := w.call.Output("dk"), w.call.Output("dv")
	for j := range t.hi - t.lo {
		at := ((t.lo+j)*KV + t.group) * C
		dk.Store(sum[j*C:][:C], at)
		dv.Store(sum[len(sum)/2+j*C:][:C], at)
	}
}

func (w *worker) backward(t task) {
	n, C := t.hi-t.lo, w.facts.HeadDim
	rows, stride := w.head(w.call.Input("k"), t)
	w.keysAcross.Pack(C, n, rows, stride, true)
	w.keysAlong.Pack(n, C, rows, stride, false)
	rows, stride = w.head(w.call.Input("v"), t)
	w.valuesAcross.Pack(C, n, rows, stride, true)
	sum := t.sum
	if t.parts == 1 {
		sum = grow(&w.sum, 2*n*C)
	}
	sum = sum[:2*n*C]
	clear(sum)
	t.blocks(w.facts, func(head, from, to int) { w.backwardQueries(t, sum, head, from, to) })
	if t.parts == 1 {
		w.store(t, sum)
	}
}

// backwardQueries computes dq of a block of queries, and adds their share to dk and dv.
func (w *worker) backwardQueries(t task, sum []float32, head, from, to int) {
	C, dy, y := w.facts.HeadDim, w.call.Input("dy"), w.call.Input("y")
	g := w.load(&w.gradients, dy, head, from, to, 1)
	out := w.load(&w.y, y, head, from, to, 1)
	for r := range to - from {
		w.delta[r] = simd.Dot(g[r*C:][:C], out[r*C:][:C])
	}
	q := w.load(&w.queries, w.call.Input("q"), head, from, to, w.scale())
	w.queriesPacked.Pack(to-from, C, q, C, false)
	w.gradientPanel.Pack(to-from, C, g, C, false)

	dq := out // y is not needed any more
	clear(dq)
	chunk := simd.PanelStart(backwardKeys)
	first, end := w.keys.union(from, to, t.lo, t.hi)
	for at := simd.PanelStart(first); at < end; at += chunk {
		last := min(at+chunk, end)
		w.scoreGradients(t, dq, head, from, to, at, last)
		w.keyGradients(t, sum, from, to, at, last)
	}
	for r := range to - from {
		row := dq[r*C:][:C]
		simd.Scale(row, row, w.scale())
		w.call.Output("dq").Store(row, w.at(from+r, head))
	}
}

// scoreGradients computes p and ds, up to its factor, of a block of queries with keys
// [at, last) of the segment, 0 where a query does not see a key, and adds to dq.
func (w *worker) scoreGradients(t task, dq []float32, head, from, to, at, last int) {
	C, stride := w.facts.HeadDim, simd.PanelStart(backwardKeys)+gap
	scores, dscores := grow(&w.scores, (to-from)*stride), grow(&w.dscores, (to-from)*stride)
	for lo := from; lo < to; lo += simd.PanelRows() {
		hi, r := min(lo+simd.PanelRows(), to), lo-from
		p, ds := scores[r*stride:], dscores[r*stride:]
		first, end := w.keys.union(lo, hi, t.lo+at, t.lo+last)
		start := simd.PanelStart(at+first) - at
		s := simd.Strip{M: hi - lo, K1: C, N0: at + start, N1: at + end, StrideA: C, StrideC: stride}
		s.A, s.C = w.queries[r*C:], p[start:]
		w.keysAcross.Multiply(s)
		s.A, s.C = w.gradients[r*C:], ds[start:]
		w.valuesAcross.Multiply(s)
		for i := range hi - lo {
			w.softmaxGradient(r+i, p[i*stride:][:last-at], ds[i*stride:][:last-at], head, lo+i, t.lo+at)
		}
		w.keysAlong.Multiply(simd.Strip{M: hi - lo, K0: at + first, K1: at + end, N1: C, A: ds[first:], StrideA: stride,
			C: dq[r*C:], StrideC: C, Accumulate: true})
	}
}

// softmaxGradient turns scores into probabilities p, and the gradients of those into the
// ones of the scores; at is the first key.
func (w *worker) softmaxGradient(r int, p, ds []float32, head, t, at int) {
	first, end := w.keys.within(t, at, at+len(p))
	for _, x := range [][]float32{p, ds} {
		clear(x[:first])
		clear(x[end:])
	}
	p, ds = p[first:end], ds[first:end]
	simd.ExpSum(p, p, 1, w.call.Input("lse").Float32s()[t*w.facts.Heads+head])
	simd.SoftmaxGrad(ds, p, ds, w.delta[r], 1)
}

// keyGradients adds a block's share to dk and dv of keys [at, last) of the segment. The
// factor of ds is in the queries.
func (w *worker) keyGradients(t task, sum []float32, from, to, at, last int) {
	C, stride := w.facts.HeadDim, simd.PanelStart(backwardKeys)+gap
	dk, dv := sum[:len(sum)/2], sum[len(sum)/2:]
	strip := 4 * simd.PanelRows() // keys at a time, for what is seen by none of them is left out
	for lo := at; lo < last; lo += strip {
		hi := min(lo+strip, last)
		first, end := w.keys.seen(from, to, t.lo+lo, t.lo+hi)
		if first == end {
			continue
		}
		a := first*stride + lo - at
		s := simd.Strip{M: hi - lo, K0: first, K1: end, N1: C, StrideA: stride, TransA: true, StrideC: C, Accumulate: true}
		s.A, s.C = w.scores[a:], dv[lo*C:]
		w.gradientPanel.Multiply(s)
		s.A, s.C = w.dscores[a:], dk[lo*C:]
		w.queriesPacked.Multiply(s)
	}
}
