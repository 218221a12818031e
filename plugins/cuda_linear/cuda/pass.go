package cuda

import (
	"unsafe"

	"github.com/seed98097648/tune/core"
)

// Pass is the work of one call. Load, Multiply and Store say what is to be done, in this order where one needs
// another; Flush and the end of the pass wait for it. All that is copied in one direction is copied together, over all
// threads, when a product or Flush needs it: a pass is fastest that loads first, multiplies then and stores last.
type Pass struct {
	*Device
	failure
	used          []memory
	loads, stores []transfer
}

// failure keeps the first error of several.
type failure struct{ err error }

func (f *failure) add(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Err returns the first error, nil for none so far.
func (f *failure) Err() error { return f.err }

// Matrix is one on the device, row-major.
type Matrix struct {
	at     uintptr
	Stride int // elements from one row to the next
}

// From returns the matrix without its first columns.
func (m Matrix) From(column int) Matrix { return Matrix{m.at + uintptr(column)*float32Bytes, m.Stride} }

const float32Bytes = 4

// check notes the error of a call of the driver.
func (p *Pass) check(call string, result uintptr) { p.add(p.driver.check(call, result)) }

// New returns a matrix with room for so many rows and columns, in which anything may be.
func (p *Pass) New(rows, cols int) Matrix {
	m, err := p.alloc(rows * cols)
	if err != nil {
		p.add(err)
		return Matrix{0, cols}
	}
	p.used = append(p.used, m)
	return Matrix{m.at, cols}
}

// Source has elements of a matrix, row after row, for Load: it sets dst to those from the one of that number on. It is
// called by several threads at once.
type Source func(dst []float32, from int)

// Load returns a matrix with the elements of the source.
func (p *Pass) Load(rows, cols int, of Source) Matrix {
	m := p.New(rows, cols)
	p.loads = append(p.loads, transfer{at: m.at, elems: rows * cols, from: of})
	return m
}

// Target takes elements of a matrix, row after row, from Store: those from the one of that number on, which it may
// overwrite. It is called by several threads at once.
type Target func(elems []float32, from int)

// Store gives all elements of a matrix whose rows follow each other, as they are when the pass is flushed, to the
// target.
func (p *Pass) Store(m Matrix, rows int, to Target) {
	p.stores = append(p.stores, transfer{at: m.at, elems: rows * m.Stride, to: to})
}

// Flush waits until all sources have been read and all targets have what they are to have.
func (p *Pass) Flush() {
	if p.load(); len(p.stores) > 0 && p.Err() == nil {
		p.after(p.down, p.multiplied, p.run)
		p.receive(p.stores)
	}
	p.stores = p.stores[:0]
}

// load copies what is to be loaded, and lets no later product begin before.
func (p *Pass) load() {
	if len(p.loads) > 0 && p.Err() == nil {
		p.send(p.loads)
		p.after(p.run, p.moved, p.up)
	}
	p.loads = p.loads[:0]
}

// after lets what comes later in a stream begin when all that was asked of another one so far is done, which the event
// notes.
func (p *Pass) after(stream, event, other uintptr) {
	p.check("cuEventRecord", p.eventRecord.Call(event, other))
	p.check("cuStreamWaitEvent", p.streamWait.Call(stream, event, 0))
}

// Product is C = Alpha op(A) op(B), or that added to C, where op(A) is M by K, op(B) is K by N and op transposes
// if asked. Nothing of it is empty.
type Product struct {
	M, N, K        int
	A, B, C        Matrix
	TransA, TransB bool // A is stored [K,M]; B is stored [N,K]
	Alpha          float32
	Accumulate     bool
}

// Multiply computes a product after those before it. cuBLAS has matrices by columns, so that what lies by rows is
// transposed to it: C^T = op(B)^T op(A)^T.
func (p *Pass) Multiply(q Product) {
	if p.load(); p.Err() != nil {
		return
	}
	alpha, beta := q.Alpha, float32(0)
	if q.Accumulate {
		beta = 1
	}
	p.add(p.blas.check("cublasSgemm", p.sgemm.Call(p.handle, operation(q.TransB), operation(q.TransA),
		uintptr(q.N), uintptr(q.M), uintptr(q.K), uintptr(unsafe.Pointer(&alpha)), q.B.at, uintptr(q.B.Stride),
		q.A.at, uintptr(q.A.Stride), uintptr(unsafe.Pointer(&beta)), q.C.at, uintptr(q.C.Stride))))
}

// operation returns CUBLAS_OP_T or CUBLAS_OP_N.
func operation(trans bool) uintptr {
	if trans {
		return 1
	}
	return 0
}

// Keep is Load for a matrix that is made of inputs which may be the same in later calls, the first of which is where
// it was and has its size. It stays on the device for as long as their contents have the same numbers, and there is
// memory.
func (p *Pass) Keep(rows, cols int, of Source, inputs ...core.Tensor) Matrix {
	contents, ok := contentsOf(inputs)
	if !ok {
		return p.Load(rows, cols, of)
	}
	k, there := p.keep(uintptr(unsafe.Pointer(unsafe.SliceData(inputs[0].Data))), rows*cols, contents)
	if k == nil {
		return p.Load(rows, cols, of)
	}
	if !there {
		p.loads = append(p.loads, transfer{at: k.memory.at, elems: rows * cols, from: of})
	}
	return Matrix{k.memory.at, cols}
}

// end waits for all of the pass, and gives its memory back. After an error nothing that the pass has kept is trusted.
func (p *Pass) end() {
	for _, stream := range []uintptr{p.up, p.run, p.down} {
		p.check("cuStreamSynchronize", p.streamSync.Call(stream))
	}
	for range cap(p.slots) {
		s := <-p.slots
		s.busy = false
		p.slots <- s
	}
	for _, m := range p.used {
		p.spare[m.bytes] = append(p.spare[m.bytes], m.at)
	}
	if p.Err() != nil {
		for _, k := range p.kept {
			if k.pass == p.passes {
				k.contents = [most]uint64{}
			}
		}
	}
}
