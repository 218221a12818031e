package blas

import (
	"runtime"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
)

// rowGrain is how many multiplications make it worth another thread, of a library without threads.
const rowGrain = 1 << 18

func (l *Library) multiply(p vector.Product) {
	switch {
	case p.Empty():
	case l.setThreads != nil:
		l.call(p)
	default:
		vector.Parallel(p.M, max(1, rowGrain/(p.N*p.K)), func(lo, hi int) {
			part := p
			part.M, part.C = hi-lo, p.C[lo*p.StrideC:]
			from := lo * p.A.Stride
			if p.TransA {
				from = lo
			}
			part.A.Data = p.A.Data[from:]
			l.call(part)
		})
	}
}

// arguments are sgemm's, which it takes by reference. Integers are of 64 bits: a library that
// takes 32 reads the lower half, which comes first in memory.
type arguments struct {
	transA, transB         [1]byte
	m, n, k, lda, ldb, ldc int64
	alpha, beta            float32
}

// call runs sgemm on float32 operands. Fortran's matrices lie by columns, so that what lies by rows
// is transposed to it: C^T = op(B)^T op(A)^T.
func (l *Library) call(p vector.Product) {
	a := &arguments{transA: trans(p.TransB), transB: trans(p.TransA), m: int64(p.N), n: int64(p.M), k: int64(p.K),
		lda: int64(p.B.Stride), ldb: int64(p.A.Stride), ldc: int64(p.StrideC), alpha: 1}
	if p.Accumulate {
		a.beta = 1
	}
	const lengths = 1 // of the two strings, which a library in Fortran takes at the end
	l.sgemm.Call(uintptr(unsafe.Pointer(&a.transA)), uintptr(unsafe.Pointer(&a.transB)),
		uintptr(unsafe.Pointer(&a.m)), uintptr(unsafe.Pointer(&a.n)), uintptr(unsafe.Pointer(&a.k)),
		uintptr(unsafe.Pointer(&a.alpha)), uintptr(unsafe.Pointer(&p.B.Data[0])), uintptr(unsafe.Pointer(&a.lda)),
		uintptr(unsafe.Pointer(&p.A.Data[0])), uintptr(unsafe.Pointer(&a.ldb)),
		uintptr(unsafe.Pointer(&a.beta)), uintptr(unsafe.Pointer(&p.C[0])), uintptr(unsafe.Pointer(&a.ldc)),
		lengths, lengths)
	runtime.KeepAlive(a)
	runtime.KeepAlive(p)
}

func trans(yes bool) [1]byte {
	if yes {
		return [1]byte{'T'}
	}
	return [1]byte{'N'}
}
