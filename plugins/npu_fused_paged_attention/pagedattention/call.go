package pagedattention

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// call is a call's facts and tensors.
type call struct {
	facts  core.Facts
	group  int // heads of q that share one of the cache
	scale  float32
	tables []int32
	places int // of a sequence's table
	q, y   rows
	k, v   rows
}

func newCall(c *core.Call) *call {
	f, tables := c.Facts, c.Input("block_tables")
	return &call{facts: f, group: f.Heads / f.KVHeads, scale: float32(f.Scale),
		tables: tables.Int32s(), places: tables.Shape[1], q: rowsOf(c.Input("q"), f), y: rowsOf(c.Output("y"), f),
		k: rowsOf(c.Input("k_cache"), f), v: rowsOf(c.Input("v_cache"), f)}
}

// rows are a tensor whose last axis are the elements of a head.
type rows struct {
	core.Tensor
	float32s []float32 // nil unless stored so
	C        int
}

func rowsOf(x core.Tensor, f core.Facts) rows {
	r := rows{Tensor: x, C: f.HeadDim}
	if x.DType == core.Float32 {
		r.float32s = x.Float32s()
	}
	return r
}

// load sets dst to n rows from row at on, [n,C], of which every step-th is taken.
func (x *rows) load(dst []float32, at, n, step int) {
	for i := range n {
		row, from := dst[i*x.C:][:x.C], (at+i*step)*x.C
		if x.float32s != nil {
			copy(row, x.float32s[from:])
		} else {
			vector.Load(row, x.Tensor, from)
		}
	}
}

// some returns n rows from row at on, where they are if they are float32, and from one to the next.
func (x *rows) some(buf *[]float32, at, n, step int) (data []float32, stride int) {
	if x.float32s != nil {
		return x.float32s[at*x.C:], step * x.C
	}
	data = vector.Grow(buf, n*x.C)
	x.load(data, at, n, step)
	return data, x.C
}

// store sets row at to v times s, which may change v.
func (x *rows) store(v []float32, at int, s float32) {
	if x.float32s != nil {
		vector.Scale(x.float32s[at*x.C:][:x.C], v, s)
		return
	}
	vector.Scale(v, v, s)
	vector.Store(x.Tensor, v, at*x.C)
}

// first returns the first token that one at this position sees.
func (c *call) first(position int) int {
	if c.facts.Window == 0 {
		return 0
	}
	return max(0, position+1-c.facts.Window)
}

// runs calls f for tokens [lo, hi) of a sequence: n of them lie one after the other from a slot on, the first
// of which is number j from lo. Blocks that follow each other are one run.
func (c *call) runs(sequence, lo, hi int, f func(j, slot, n int)) {
	table, size := c.tables[sequence*c.places:][:c.places], c.facts.BlockSize
	for j := lo; j < hi; {
		block := j / size
		from, end := j, (block+1)*size
		slot := int(table[block])*size + j%size
		for end < hi && table[block+1] == table[block]+1 {
			block, end = block+1, end+size
		}
		j = min(end, hi)
		f(from-lo, slot, j-from)
	}
}

// row is the row of a cache that a head has in a slot.
func (c *call) row(slot, head int) int { return slot*c.facts.KVHeads + head }
