package attention

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// call is a call's facts and tensors, those of its pass.
type call struct {
	facts                      core.Facts
	keys                       ranges
	scale                      float32 // of scores
	q, k, v, y, dy, dq, dk, dv heads
	lse                        []float32 // [T,H]
	rooms                      *rooms    // of Backward
}

func newCall(c *core.Call) *call {
	f := c.Facts
	x := &call{facts: f, keys: c.Input("keys").Int32s(), scale: float32(1 / math.Sqrt(float64(f.HeadDim)))}
	x.q, x.k, x.v = headsOf(c.Input("q"), f, f.Heads), headsOf(c.Input("k"), f, f.KVHeads), headsOf(c.Input("v"), f, f.KVHeads)
	if c.Pass == core.Forward {
		x.y, x.lse = headsOf(c.Output("y"), f, f.Heads), c.Output("lse").Float32s()
		return x
	}
	x.dy, x.lse = headsOf(c.Input("dy"), f, f.Heads), c.Input("lse").Float32s()
	x.dq, x.dk, x.dv = headsOf(c.Output("dq"), f, f.Heads), headsOf(c.Output("dk"), f, f.KVHeads), headsOf(c.Output("dv"), f, f.KVHeads)
	return x
}

// heads is a tensor [T,heads,C]. Rows of it are short, so what they need is found once.
type heads struct {
	core.Tensor
	float32s []float32 // nil unless stored so
	count, C int
}

func headsOf(x core.Tensor, f core.Facts, count int) heads {
	h := heads{Tensor: x, count: count, C: f.HeadDim}
	if x.DType == core.Float32 {
		h.float32s = x.Float32s()
	}
	return h
}

// load sets dst to row (t, head) times s.
func (x *heads) load(dst []float32, t, head int, s float32) {
	at := (t*x.count + head) * x.C
	if x.float32s != nil {
		vector.Scale(dst, x.float32s[at:at+x.C], s)
		return
	}
	vector.Load(dst, x.Tensor, at)
	vector.Scale(dst, dst, s)
}

// store sets row (t, head) to v times s, which may change v.
func (x *heads) store(v []float32, t, head int, s float32) {
	at := (t*x.count + head) * x.C
	if x.float32s != nil {
		vector.Scale(x.float32s[at:at+x.C], v, s)
		return
	}
	vector.Scale(v, v, s)
	vector.Store(x.Tensor, v, at)
}

// ahead asks for row r of a block of queries, if there is one, to be brought into the
// caches: rows of a head lie far apart, where processors do not see what comes next.
func (x *heads) ahead(b queries, r int) {
	if x.float32s != nil && r < b.to-b.from {
		vector.Prefetch(x.float32s[((b.from+r)*x.count+b.head)*x.C:][:x.C])
	}
}

// queryRows returns the rows of a block of queries, times s.
func (x *heads) queryRows(buf *[]float32, b queries, s float32) []float32 {
	rows := vector.Grow(buf, (b.to-b.from)*x.C)
	for t := b.from; t < b.to; t++ {
		x.load(rows[(t-b.from)*x.C:][:x.C], t, b.head, s)
	}
	return rows
}

// keyRows returns the rows [n,C] of a task's key head, where they are if they are float32,
// and their stride.
func (x *heads) keyRows(buf *[]float32, t task) (rows []float32, stride int) {
	if x.float32s != nil {
		return x.float32s[(t.lo*x.count+t.group)*x.C:], x.count * x.C
	}
	rows = vector.Grow(buf, (t.hi-t.lo)*x.C)
	for j := t.lo; j < t.hi; j++ {
		x.load(rows[(j-t.lo)*x.C:][:x.C], j, t.group, 1)
	}
	return rows, x.C
}
