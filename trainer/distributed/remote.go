package distributed

import (
	"fmt"
	"unsafe"

	"github.com/seed98097648/tune/internal/simd"
)

// remote exchanges buckets with the other nodes, for its own. All that it does, the thread of MPI does.
type remote struct {
	reducer       *Reducer
	first, second comm // of the ranks that speak for a node
	sets          [sets]buffers
}

// course is where a pass has got to.
type course struct {
	kind    kind
	started int    // buckets whose second collective was started
	over    []bool // buckets
	base    uint32 // buckets of passes before
}

// buffers are what a bucket has under way.
type buffers struct{ send, recv, all []byte }

// newRemote is called by all ranks; nil for those that do not speak for their node.
func newRemote(r *Reducer, elems int) (*remote, error) {
	w, m := r.world, &remote{reducer: r}
	colour := 1
	if r.top.leader() {
		colour = 0
	}
	err := w.do("the nodes' communicators", func() (err error) {
		if m.first, err = w.link.split(colour, r.top.place); err == nil {
			m.second, err = w.link.split(colour, r.top.place)
		}
		return err
	})
	if err != nil || colour == 1 {
		return nil, err
	}
	from, to := r.top.piece(elems, r.top.node)
	for i := range m.sets {
		m.sets[i] = buffers{recv: make([]byte, 4*(to-from+32)*len(r.top.nodes)), all: make([]byte, 4*elems)}
		if r.wire == BFloat16 {
			m.sets[i].send = make([]byte, 2*elems)
		}
	}
	return m, nil
}

func (m *remote) begin(k kind) *course {
	return &course{kind: k, over: make([]bool, len(m.reducer.buckets)), base: m.reducer.base}
}

// send has a bucket exchanged whose sum the node has.
func (m *remote) send(c *course, i int) {
	r := m.reducer
	x := &transfer{remote: m, course: c, bucket: i, buffers: &m.sets[i%sets], width: 4,
		sum: r.arena.sums[i%sets][:r.buckets[i].elems]}
	if c.kind != gather && r.wire == BFloat16 { // parameters are not rounded
		x.width = 2
	}
	r.world.thread.jobs <- &job{x.advance, func(err error) {
		if err != nil {
			go r.world.fail(fmt.Errorf("distributed: a sum over the ranks: %w", err))
			return
		}
		c.done(i, r.arena.mark)
	}}
}

// done counts the buckets that are over, in their order.
func (c *course) done(i int, m *mark) {
	c.over[i] = true
	for n := int(m.complete.Load() - c.base); n < len(c.over) && c.over[n]; n++ {
		m.complete.Add(1)
	}
}

// transfer is a bucket on its way: each node gets its piece from all others and adds them up, then all get the pieces.
type transfer struct {
	*buffers
	remote  *remote
	course  *course
	bucket  int
	width   int // bytes of an element on the wire
	sum     []float32
	second  bool
	pending pending
}

func (x *transfer) advance() (bool, error) {
	if x.pending == nil {
		if x.course.kind != gather {
			return false, x.startFirst()
		}
		return x.startSecond()
	}
	if done, err := x.pending.finished(); !done || err != nil {
		return false, err
	}
	if x.second {
		x.unpack()
		return true, nil
	}
	if x.course.started != x.bucket {
		return false, nil // which is finished as often as it is asked
	}
	x.addUp()
	if x.course.kind == scatter {
		x.course.started++
		return true, nil
	}
	return x.startSecond()
}

// pieces returns the parts of the nodes in a bucket.
func (x *transfer) pieces() *parts {
	top, n := x.remote.reducer.top, len(x.sum)
	counts := make([]int, len(top.nodes))
	for i := range counts {
		from, to := top.piece(n, i)
		counts[i] = (to - from) * x.width
	}
	return newParts(counts)
}

func (x *transfer) startFirst() (err error) {
	m, send := x.remote, asBytes(x.sum)
	if x.width == 2 {
		send = x.send[:2*len(x.sum)]
		simd.Float32ToBFloat16(asHalves(send), x.sum)
	}
	mine, nodes := x.own(), len(m.reducer.top.nodes)
	n := len(mine) * x.width
	recvs := make([]int, nodes)
	for i := range recvs {
		recvs[i] = n
	}
	x.pending, err = m.first.alltoall(send, x.pieces(), x.recv[:n*nodes], newParts(recvs))
	return err
}

// own is this node's piece of the sum.
func (x *transfer) own() []float32 {
	top := x.remote.reducer.top
	from, to := top.piece(len(x.sum), top.node)
	return x.sum[from:to]
}

// addUp sums what all nodes have sent, in their order.
func (x *transfer) addUp() {
	mine, w := x.own(), x.width
	var term []float32
	if w == 2 {
		term = make([]float32, len(mine))
	}
	for i := range x.remote.reducer.top.nodes {
		got := x.recv[i*len(mine)*w:][:len(mine)*w]
		t := asFloats(got)
		if w == 2 {
			simd.BFloat16ToFloat32(term, asHalves(got))
			t = term
		}
		if i == 0 {
			copy(mine, t)
		} else {
			simd.Add(mine, mine, t)
		}
	}
}

func (x *transfer) startSecond() (_ bool, err error) {
	m, send := x.remote, asBytes(x.own())
	if x.width == 2 {
		send = x.send[:2*len(x.own())] // what was there has arrived
		simd.Float32ToBFloat16(asHalves(send), x.own())
	}
	x.course.started++
	x.second = true
	x.pending, err = m.second.allgather(send, x.all[:len(x.sum)*x.width], x.pieces())
	return false, err
}

func (x *transfer) unpack() {
	if x.width == 2 {
		simd.BFloat16ToFloat32(x.sum, asHalves(x.all[:2*len(x.sum)]))
		return
	}
	copy(x.sum, asFloats(x.all[:4*len(x.sum)]))
}

func asBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func asFloats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func asHalves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
