package attention

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/internal/storage"
)

// worker is what one goroutine needs for its tasks. n is the tokens of a segment, b the
// queries of a block, at most blockRows.
type worker struct {
	call  *core.Call
	facts core.Facts
	keys  ranges

	wide                  []float32   // [n,C]: a head of k or v that is not stored as float32
	keysAcross, keysAlong simd.Panels // k^T [C,n] and k [n,C]
	valuesAcross          simd.Panels // v^T [C,n], of Backward
	valuesAlong           simd.Panels // v [n,C], of Forward
	queries, gradients    []float32   // [b,C]: q/sqrt(C) and dy
	queriesPacked         simd.Panels // the same, of Backward
	gradientsPacked       simd.Panels
	y                     []float32 // [b,C]: y or dq
	scores, dscores       []float32 // [b,keys+gap]
	sum                   []float32 // [2,n,C]: dk and dv

	high         [blockRows]float32
	total, delta [blockRows]float64
}

// grow returns n elements of scratch memory, with what they held before.
func grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}

// head returns the key head of a task, rows [n,C] of x and their stride.
func (w *worker) head(x core.Tensor, t task) (rows []float32, stride int) {
	C, KV := w.facts.HeadDim, w.facts.KVHeads
	if x.DType == core.Float32 {
		return x.Float32s()[(t.lo*KV+t.group)*C:], KV * C
	}
	rows = grow(&w.wide, (t.hi-t.lo)*C)
	for j := range t.hi - t.lo {
		storage.Load(rows[j*C:][:C], x, ((t.lo+j)*KV+t.group)*C)
	}
	return rows, C
}

// load returns queries [from, to) of a head of x [T,H,C], times s.
func (w *worker) load(buf *[]float32, x core.Tensor, head, from, to int, s float32) []float32 {
	C := w.facts.HeadDim
	rows := grow(buf, (to-from)*C)
	for t := from; t < to; t++ {
		row := rows[(t-from)*C:][:C]
		storage.Load(row, x, w.at(t, head))
		if s != 1 {
			simd.Scale(row, row, s)
		}
	}
	return rows
}

// at returns where the row of query t and a head starts in a tensor [T,H,C].
func (w *worker) at(t, head int) int { return (t*w.facts.Heads + head) * w.facts.HeadDim }

// scale is what scores are multiplied by.
func (w *worker) scale() float32 { return float32(1 / math.Sqrt(float64(w.facts.HeadDim))) }
