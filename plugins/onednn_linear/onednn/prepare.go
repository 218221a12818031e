package onednn

import (
	"unsafe"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// shape is what a prepared product depends on.
type shape struct {
	m, n, k    int
	factors    dtype // what the product multiplies
	a, b       stored
	accumulate bool
}

// stored says how an operand lies in memory.
type stored struct {
	dtype  dtype
	stride int
	trans  bool
}

func (s stored) strides() *[2]int64 {
	if s.trans {
		return &[2]int64{1, int64(s.stride)}
	}
	return &[2]int64{int64(s.stride), 1}
}

// prepared is a product of some shape, ready for data.
type prepared struct {
	a, b     operand
	multiply primitive
	out      uintptr // the memory object of C
	owned    []owned
}

// operand is one of the two of a product: pack makes of it what the product takes, rounded, and in blocks that
// suit the processor, unless it lies so already.
type operand struct {
	from, to uintptr // memory objects; one and the same if there is nothing to pack
	pack     primitive
	bytes    int // of what pack makes
}

// primitive is one with its arguments.
type primitive struct {
	handle  uintptr
	args    []argument
	scratch uintptr // the memory object of what it needs while it runs
	bytes   int     // of that
}

// argument is dnnl_exec_arg_t.
type argument struct {
	index  int32
	memory uintptr
}

// Indices of arguments. A reorder takes argSource and gives argResult.
const (
	argSource  = 1
	argWeights = 33
	argResult  = 17
	argScratch = 80
)

// Tensors of a primitive, as dnnl_query_t numbers them.
const (
	querySource  = 129
	queryWeights = 131
	queryScratch = 136
)

// owned is what is to be destroyed with a prepared product.
type owned struct {
	destroy dynlib.Func
	handle  uintptr
}

func (p *prepared) close() {
	for i := len(p.owned) - 1; i >= 0; i-- {
		p.owned[i].destroy.Call(p.owned[i].handle)
	}
}

// maker makes a prepared product, until something goes wrong.
type maker struct {
	*Library
	p     *prepared
	descs []desc
	err   error
}

// prepare makes a product of this shape.
func (l *Library) prepare(s shape) (*prepared, error) {
	m := &maker{Library: l, p: new(prepared)}
	a, b := m.desc(s.a.dtype, s.m, s.k, s.a.strides()), m.desc(s.b.dtype, s.k, s.n, s.b.strides())
	c := m.desc(float32s, s.m, s.n, &[2]int64{int64(s.n), 1})
	pd := m.matmul(m.desc(s.factors, s.m, s.k, nil), m.desc(s.factors, s.k, s.n, nil), c, s.accumulate)
	m.p.a, m.p.b = m.operand(a, m.queried(pd, querySource)), m.operand(b, m.queried(pd, queryWeights))
	m.p.out = m.memory(c)
	m.p.multiply = m.primitive(pd, argument{argSource, m.p.a.to}, argument{argWeights, m.p.b.to},
		argument{argResult, m.p.out})
	for _, d := range m.descs {
		l.forget(d)
	}
	if m.err != nil {
		m.p.close()
	}
	return m.p, m.err
}

// made takes in what a call has made, unless the call or one before it went wrong.
func (m *maker) made(what string, status uintptr, handle *uintptr, destroy dynlib.Func) uintptr {
	if m.err == nil {
		m.err = m.done(what, status)
	}
	if m.err != nil {
		return 0
	}
	if destroy != 0 {
		m.p.owned = append(m.p.owned, owned{destroy, *handle})
	}
	return *handle
}

func (m *maker) desc(d dtype, rows, cols int, strides *[2]int64) uintptr {
	made, err := m.describe(d, rows, cols, strides)
	if m.err == nil {
		m.err = err
	}
	m.descs = append(m.descs, made)
	return made.at
}

// matmul returns the descriptor of a product.
func (m *maker) matmul(a, b, c uintptr, accumulate bool) (pd uintptr) {
	if m.err != nil {
		return 0
	}
	attr, status := m.plain, uintptr(0)
	if accumulate {
		attr = m.adding
	}
	if m.matmulCreate != 0 {
		status = m.matmulCreate.Call(uintptr(unsafe.Pointer(&pd)), m.engine, a, b, 0, c, attr)
	} else {
		room := new([1 << 9]uint64) // its own descriptor takes 2800 bytes
		if status = m.matmulInit.Call(uintptr(unsafe.Pointer(room)), a, b, 0, c); int32(status) == 0 {
			status = m.opCreate.Call(uintptr(unsafe.Pointer(&pd)), uintptr(unsafe.Pointer(room)), attr, m.engine, 0)
		}
	}
	return m.made("a product's descriptor", status, &pd, 0)
}

// queried returns the descriptor of a tensor that a primitive wants, as long as its own is there.
func (m *maker) queried(pd uintptr, which uintptr) uintptr {
	if m.err != nil {
		return 0
	}
	return m.query.Call(pd, which, 0)
}

func (m *maker) memory(md uintptr) (memory uintptr) {
	if m.err != nil {
		return 0
	}
	const noData = 0
	return m.made("dnnl_memory_create", m.memoryCreate.Call(uintptr(unsafe.Pointer(&memory)), md, m.engine, noData),
		&memory, m.memoryDestroy)
}

// operand returns one that lies as given, for a product that wants it so.
func (m *maker) operand(given, wanted uintptr) (o operand) {
	o.from = m.memory(given)
	o.to = o.from
	if m.err != nil || m.descEqual.Call(given, wanted)&1 != 0 {
		return o
	}
	o.to, o.bytes = m.memory(wanted), int(m.descSize.Call(wanted))
	var pd uintptr
	status := m.reorderCreate.Call(uintptr(unsafe.Pointer(&pd)), given, m.engine, wanted, m.engine, m.plain)
	m.made("a reorder's descriptor", status, &pd, 0)
	o.pack = m.primitive(pd, argument{argSource, o.from}, argument{argResult, o.to})
	return o
}

// primitive makes one of its descriptor, which it frees.
func (m *maker) primitive(pd uintptr, args ...argument) (p primitive) {
	if pd == 0 {
		return p
	}
	defer m.descDestroy.Call(pd)
	if scratch := m.queried(pd, queryScratch); scratch != 0 {
		if p.bytes = int(m.descSize.Call(scratch)); p.bytes > 0 {
			p.scratch = m.memory(scratch)
			args = append(args, argument{argScratch, p.scratch})
		}
	}
	if p.args = args; m.err == nil {
		status := m.primitiveCreate.Call(uintptr(unsafe.Pointer(&p.handle)), pd)
		m.made("dnnl_primitive_create", status, &p.handle, m.primitiveDestroy)
	}
	return p
}
