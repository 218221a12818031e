package nn

import (
	"sync"
	"sync/atomic"

	"github.com/seed98097648/tune/internal/simd"
)

const (
	// bandTokens is about how many tokens of a row are a piece of work, with all heads that share a key head: of queries,
	// or of keys where their gradients are summed. What it needs of the others is packed once for these heads, or tokens.
	bandTokens = 128
	// bandTerms is how many tokens are multiplied by at a time, so that they stay in the second-level cache.
	bandTerms = 512
	// serialScores is the number of multiplications for scores below which other goroutines cost more than they save.
	serialScores = 1 << 16
)

// interval is tokens [lo, hi) of a row, counted from its first.
type interval struct{ lo, hi int }

// with returns the least interval that has both.
func (s interval) with(o interval) interval {
	switch {
	case s.lo == s.hi:
		return o
	case o.lo == o.hi:
		return s
	}
	return interval{min(s.lo, o.lo), max(s.hi, o.hi)}
}

// bands cut attention into pieces that leave out most of what no query sees.
type bands struct {
	attentionShape
	keys        []int32
	rows, count int        // a block is so many tokens, those that a product has at once; and blocks in a row
	seen        []interval // [B, count]: the keys that each block of queries sees
}

var usedBands = sync.Pool{New: func() any { return new(bands) }}

// bandsOf returns what keys [B*S, 2] are cut into, to be put back into usedBands.
func (a attentionShape) bandsOf(keys []int32) *bands {
	x := usedBands.Get().(*bands)
	x.attentionShape, x.keys, x.rows = a, keys, simd.PanelRows()
	x.count = (a.s + x.rows - 1) / x.rows
	x.seen = append(x.seen[:0], make([]interval, a.b*x.count)...) // which allocates only if it has to grow
	for row := range a.b {
		for i := range a.s {
			at := &x.seen[row*x.count+i/x.rows]
			*at = at.with(x.keysOf(row, i))
		}
	}
	return x
}

// keysOf returns the keys that query i of a row sees.
func (x *bands) keysOf(row, i int) interval {
	seen := x.keys[2*(row*x.s+i):][:2]
	return interval{int(seen[0]) - row*x.s, int(seen[1]) - row*x.s}
}

// partners returns the least interval of what has to do with the block from token i of a row on: keys that queries see,
// or, turned, blocks of queries that see keys.
func (x *bands) partners(row, i int, turned bool) interval {
	seen := x.seen[row*x.count:][:x.count]
	if !turned {
		return seen[i/x.rows]
	}
	var all interval
	for at, s := range seen {
		if max(s.lo, i) < min(s.hi, i+x.rows) {
			all = all.with(interval{at * x.rows, min((at+1)*x.rows, x.s)})
		}
	}
	return all
}

// band is tokens [from, to) of a row, their partners, and a key head.
type band struct {
	row, g, from, to int
	interval
}

// bandRoom is what a goroutine packs in.
type bandRoom [3]simd.Panels

var bandRooms = sync.Pool{New: func() any { return new(bandRoom) }}

// each calls do for the bands of all rows and key heads: of queries or, turned, of keys.
func (x *bands) each(turned bool, do func(room *bandRoom, t band)) {
	size := (bandTokens + x.rows - 1) / x.rows * x.rows
	inRow := (x.s + size - 1) / size
	all, threads := x.b*x.kv*inRow, simd.Threads()
	if x.b*x.heads*x.s*x.s/2*x.c < serialScores {
		threads = 1
	}
	var next atomic.Int64
	simd.Parallel(min(threads, all), 1, func(_, _ int) {
		room := bandRooms.Get().(*bandRoom)
		defer bandRooms.Put(room)
		for i := int(next.Add(1) - 1); i < all; i = int(next.Add(1) - 1) {
			t := band{row: i / x.kv % x.b, g: i % x.kv, from: i / (x.kv * x.b) * size}
			if !turned {
				t.from = (inRow-1)*size - t.from // the last queries see most, and go first, as the first keys do
			}
			t.to = min(t.from+size, x.s)
			for at := t.from; at < t.to; at += x.rows {
				t.interval = t.with(x.partners(t.row, at, turned))
			}
			do(room, t)
		}
	})
}

// eachHead calls do for the query heads of a band, counted over the batch, and tells which is the first.
func (x *bands) eachHead(t band, do func(h int, first bool)) {
	group := x.heads / x.kv
	for n := range group {
		do(t.row*x.heads+t.g*group+n, n == 0)
	}
}

// keyHead counts a band's key head over the batch.
func (x *bands) keyHead(t band) int { return t.row*x.kv + t.g }

// pack packs the partners of a band, of a matrix [S, C]: as [C, n] if across, else as [n, C].
func (x *bands) pack(to *simd.Panels, m simd.Matrix, t band, across bool) {
	k, n, data := t.hi-t.lo, x.c, m.Data[t.lo*m.Stride:]
	if across {
		k, n = n, k
	}
	to.Pack(k, n, data, m.Stride, across)
}

// across sets dst [S, S], for queries of a band and the keys that they see, to x [S, C] times what is packed across.
// It may write to other columns of these rows, too.
func (x *bands) across(dst []float32, m simd.Matrix, t band, packed *simd.Panels) {
	terms, n := simd.PanelStart(bandTerms), t.hi-t.lo
	for lo := 0; lo < n; lo += terms {
		for i := t.from; i < t.to; i += x.rows {
			s := x.partners(t.row, i, false)
			from, to := max(lo, simd.PanelStart(max(0, s.lo-t.lo))), min(simd.PanelEnd(max(0, s.hi-t.lo)), lo+terms, n)
			if from < to {
				packed.Multiply(simd.Strip{M: min(x.rows, t.to-i), K1: x.c, N0: from, N1: to, A: m.Data[i*m.Stride:],
					StrideA: m.Stride, C: dst[i*x.s+t.lo+from:], StrideC: x.s})
			}
		}
	}
}

// along sets dst [S, C], of the tokens of a band, to p [S, S] or, turned, its transpose, times what is packed along, or
// adds it. What a query does not see is 0 in p.
func (x *bands) along(dst simd.Matrix, p []float32, t band, packed *simd.Panels, turned, add bool) {
	for lo := t.lo; lo == t.lo || lo < t.hi; lo += bandTerms {
		for i := t.from; i < t.to; i += x.rows {
			s := x.partners(t.row, i, turned)
			from, to := max(lo, s.lo), min(lo+bandTerms, s.hi)
			if from >= to {
				if add || lo > t.lo {
					continue
				}
				from, to = lo, lo // the sum of nothing
			}
			a := i*x.s + from
			if turned {
				a = from*x.s + i
			}
			packed.Multiply(simd.Strip{M: min(x.rows, t.to-i), K0: from - t.lo, K1: to - t.lo, N1: x.c, A: p[a:], StrideA: x.s,
				TransA: turned, C: dst.Data[i*dst.Stride:], StrideC: dst.Stride, Accumulate: add || lo > t.lo})
		}
	}
}
