package onednn

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
)

// most is how many shapes of products are kept prepared: those of a model's layers, and of its parts of a prompt.
const most = 64

// Multiply computes products one after the other, as vector.Multiply does: each over all the threads that this
// process may use. Operands are in float32 or bfloat16; with A Rounded, both are rounded to that, and numbers
// too small for its usual precision, below 1.2e-38, count as 0. The rows of C lie one behind the other: with
// others between them, version 3.7 writes into those where C has one column. It panics where the library
// fails, as for want of memory.
func (l *Library) Multiply(products ...vector.Product) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onThreads(func() {
		for i := range products {
			if p := &products[i]; !p.Empty() {
				if err := l.multiply(p); err != nil {
					panic(err)
				}
			}
		}
	})
}

func (l *Library) multiply(p *vector.Product) error {
	factors := float32s
	if p.A.Rounded {
		factors = bfloat16
	}
	a, atA := lies(p.A, p.TransA)
	b, atB := lies(p.B, p.TransB)
	if p.StrideC != p.N {
		return fmt.Errorf("a product with %d elements from one row to the next of C, of %d", p.StrideC, p.N)
	}
	s := shape{p.M, p.N, p.K, factors, a, b, p.Accumulate}
	ready, ok := l.prepared[s]
	if !ok {
		made, err := l.prepare(s)
		if err != nil {
			return fmt.Errorf("a product of %d x %d x %d: %w", p.M, p.N, p.K, err)
		}
		if len(l.prepared) == most {
			for _, old := range l.prepared {
				old.close()
			}
			clear(l.prepared)
		}
		ready = made
		l.prepared[s] = made
	}
	err := l.pack(&ready.a, atA, &l.left)
	if err == nil {
		err = l.pack(&ready.b, atB, &l.right)
	}
	if err == nil {
		l.setHandle.Call(ready.out, uintptr(unsafe.Pointer(&p.C[0])))
		err = l.run(&ready.multiply)
	}
	runtime.KeepAlive(p)
	return err
}

// lies says how an operand lies, and where.
func lies(x vector.Matrix, trans bool) (stored, unsafe.Pointer) {
	if x.BFloat16 != nil {
		return stored{bfloat16, x.Stride, trans}, unsafe.Pointer(&x.BFloat16[0])
	}
	return stored{float32s, x.Stride, trans}, unsafe.Pointer(&x.Data[0])
}

// pack makes of an operand what its product takes, in room.
func (l *Library) pack(o *operand, at unsafe.Pointer, room *[]byte) error {
	l.setHandle.Call(o.from, uintptr(at))
	if o.to == o.from {
		return nil
	}
	l.setHandle.Call(o.to, uintptr(unsafe.Pointer(grow(room, o.bytes))))
	return l.run(&o.pack)
}

func (l *Library) run(p *primitive) error {
	if p.bytes > 0 {
		l.setHandle.Call(p.scratch, uintptr(unsafe.Pointer(grow(&l.scratch, p.bytes))))
	}
	err := l.done("dnnl_primitive_execute",
		l.execute.Call(p.handle, l.stream, uintptr(len(p.args)), uintptr(unsafe.Pointer(&p.args[0]))))
	if err == nil {
		err = l.done("dnnl_stream_wait", l.streamWait.Call(l.stream))
	}
	return err
}

// line is what the library wants its memory to begin at multiples of, in bytes.
const line = 64

// grow returns room for n bytes.
func grow(room *[]byte, n int) *byte {
	if len(*room) < n {
		more := make([]byte, n+line)
		skip := -int(uintptr(unsafe.Pointer(&more[0]))) & (line - 1)
		*room = more[skip:]
	}
	return &(*room)[0]
}
