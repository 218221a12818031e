package blas

import (
	"runtime"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
)

// A library without threads gets a product in pieces of so many rows, or of as many as make this many multiplications.
// Where they are cut must not depend on the number of threads: sums of the last rows of a call may have another order,
// as those of ATLAS have.
const (
	pieceRows = 64
	pieceWork = 1 << 18
)

func (l *Library) multiply(p vector.Product) {
	switch {
	case p.Empty():
	case l.setThreads != nil:
		l.call(p)
	default:
		rows := max(pieceRows, pieceWork/(p.N*p.K))
		vector.Parallel((p.M+rows-1)/rows, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				l.call(piece(p, i*rows, min((i+1)*rows, p.M)))
			}
		})
	}
}

// piece returns the product that gives rows [lo, hi) of another one.
func piece(p vector.Product, lo, hi int) vector.Product {
	from := lo * p.A.Stride
	if p.TransA {
		from = lo
	}
	p.M, p.C, p.A.Data = hi-lo, p.C[lo*p.StrideC:], p.A.Data[from:]
	return p
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
