package simd

import (
	"math"
	"sync/atomic"
)

// W8A8 is a linear layer that multiplies int8 by int8, the op linear_w8a8: y = x weight^T. Its result is the same to
// the bit in every variant.
type W8A8 struct {
	M, N, K int
	X       []float32 // [M, K]
	Weight  []int8    // [N, K]
	Y       []float32 // [M, N]
	Scale   []float32 // [N], of the rows of the weight; with Static that times InputScale

	Static      bool // activations have one scale and offset, in place of a scale for each row
	InputScale  float32
	InputOffset int32
	QuantBias   []int32   // [N], with Static alone
	Bias        []float32 // [N], without Static alone; nil for none
}

// Multiply computes Y. An int32 holds the sums as long as K is below 2^17.
func (p *W8A8) Multiply() { MultiplyW8A8(p) }

// MultiplyW8A8 computes layers of one X, whose rows become int8 once, as the first layer says.
func MultiplyW8A8(layers ...*W8A8) {
	for _, p := range layers {
		if len(p.X) < p.M*p.K || len(p.Weight) < p.N*p.K || len(p.Y) < p.M*p.N || len(p.Scale) < p.N {
			panic("simd: a slice of a product in int8 is shorter than its sizes say")
		}
	}
	m := w8a8s.get()
	for i, p := range layers {
		m.p = p
		if i == 0 {
			m.quantised.grow(p.M, p.K)
			Parallel(p.M, max(1, grainInt8/max(p.K, 1)), m.quantise)
		}
		m.spread()
	}
	m.p = nil
	w8a8s.put(m)
}

// grainInt8 is how many bytes of a weight make it worth another thread, and pieceInt8 the most that a thread takes at a
// time: they do not all get the same share of the memory's bandwidth.
const (
	grainInt8 = 1 << 14
	pieceInt8 = 1 << 19
)

// w8a8 is what a product needs beside its operands.
type w8a8 struct {
	p *W8A8
	quantised
	quantise func(lo, hi int)
	width    int          // columns that a thread takes at a time
	next     atomic.Int64 // the first of those that nobody has taken
	take     func(worker int)
}

// quantised are rows of int8.
type quantised struct {
	q      []int8
	sums   []int32 // of each row
	scales []float32
}

func (r *quantised) grow(rows, k int) {
	if cap(r.q) < rows*k {
		r.q = make([]int8, rows*k)
	}
	if cap(r.sums) < rows {
		r.sums, r.scales = make([]int32, rows), make([]float32, rows)
	}
	r.q, r.sums, r.scales = r.q[:rows*k], r.sums[:rows], r.scales[:rows]
}

var w8a8s = stock[w8a8]{make: func() *w8a8 {
	m := &w8a8{}
	m.quantise = m.quantiseRows
	m.take = m.pieces
	return m
}}

// spread computes Y of what is quantised, by several threads.
func (m *w8a8) spread() {
	k := max(m.p.K, 1)
	workers := max(1, min(Threads(), m.p.N*k/grainInt8))
	m.width = min(ceilDiv(m.p.N, 4*workers), max(1, pieceInt8/k))
	m.width = max(1, ceilDiv(m.width, sumsAtOnce)) * sumsAtOnce
	m.next.Store(0)
	run(workers, m.take)
}

// pieces computes columns of Y until others have the rest.
func (m *w8a8) pieces(int) {
	for {
		hi := int(m.next.Add(int64(m.width)))
		if lo := hi - m.width; lo < m.p.N {
			m.columns(lo, min(hi, m.p.N))
			continue
		}
		return
	}
}

// quantiseRows makes int8 of rows of x.
func (m *w8a8) quantiseRows(lo, hi int) {
	p := m.p
	for r := lo; r < hi; r++ {
		x, q := p.X[r*p.K:][:p.K], m.q[r*p.K:][:p.K]
		if m.scales[r] = 1; p.Static {
			QuantiseStatic(q, x, p.InputScale, p.InputOffset)
		} else {
			m.scales[r] = QuantiseRow(q, x)
		}
		m.sums[r] = 0
		if activeInt8.needsSums {
			for _, v := range q {
				m.sums[r] += int32(v)
			}
		}
	}
}

// QuantiseRow sets q to the multiples of scale = max|x|/127 that are nearest to x, halves to even. The scale is 1
// where that is 0; that of a row which is not finite is not either, and its multiples are 0.
func QuantiseRow(q []int8, x []float32) (scale float32) {
	most := activeInt8.largest(x)
	if scale = math.Float32frombits(most) / math.MaxInt8; scale == 0 {
		scale = 1
	}
	if most >= 0x7f800000 {
		clear(q)
		return scale
	}
	QuantiseStatic(q, x, scale, 0)
	return scale
}

// largestBits returns the largest bits of a number without its sign: they order as the numbers do, and NaN above all.
func largestBits(x []float32) (most uint32) {
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}

// QuantiseStatic sets q[i] = clamp(round(x[i]/scale) + offset) to int8, halves to even. A quotient that is NaN counts as 0.
func QuantiseStatic(q []int8, x []float32, scale float32, offset int32) {
	same(len(q), len(x))
	if f := activeInt8.quantise; f != nil {
		n := len(x) &^ 31
		f(q[:n], x[:n], scale, offset)
		q, x = q[n:], x[n:]
	}
	const far = 1 << 10
	for i, v := range x {
		v /= scale
		switch { // each way NaN is no
		case v >= far:
			v = far
		case v <= -far:
			v = -far
		case v != v:
			v = 0
		}
		// In float32 between 2^23 and 2^24 there are whole numbers alone.
		const whole = 3 << 22
		q[i] = int8(min(max(int32(float32(v+whole)-whole)+offset, math.MinInt8), math.MaxInt8))
	}
}

// sumsAtOnce bounds the rows and columns of a block of sums.
const sumsAtOnce = 4

// columns computes columns [lo, hi) of Y.
func (m *w8a8) columns(lo, hi int) {
	p, k := m.p, activeInt8
	if k.long[0] != nil && p.K > 0 && p.K%longTerms == 0 {
		if lo = m.longColumns(lo, hi); lo == hi {
			return
		}
	}
	var sums [sumsAtOnce * sumsAtOnce]int32
	for n := lo; n < hi; n += k.cols {
		cols := min(k.cols, hi-n)
		for r := 0; r < p.M; r += k.rows {
			rows := min(k.rows, p.M-r)
			k.block(sums[:], m.q[r*p.K:(r+rows)*p.K], p.Weight[n*p.K:(n+cols)*p.K], m.sums[r:], p.K)
			for i := range rows {
				m.finish(r+i, n, sums[i*cols:][:cols])
			}
		}
	}
}

// finish writes elements of a row, from column n on, of which it has the sums. Every operation is rounded.
func (m *w8a8) finish(row, n int, sums []int32) {
	p := m.p
	y, scale := p.Y[row*p.N+n:][:len(sums)], p.Scale[n:][:len(sums)]
	if p.Static {
		for i, sum := range sums {
			y[i] = float32(sum+p.QuantBias[n+i]) * scale[i]
		}
		return
	}
	activeInt8.scaleSums(y, sums, scale, m.scales[row])
	if p.Bias != nil {
		active.add(y, y, p.Bias[n:][:len(y)])
	}
}

func scaleSums(dst []float32, sums []int32, scale []float32, s float32) {
	for i, sum := range sums {
		dst[i] = float32(float32(float32(sum)*s) * scale[i])
	}
}
