package vector

import (
	"runtime/debug"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/hugepage"
	"github.com/seed98097648/tune/internal/simd"
)

// Parallel calls f on consecutive ranges [lo, hi) that cover [0, n), at most one range
// per thread, each of at least grain elements unless n is smaller, and returns when all
// are done. Results are the same for any number of threads as long as f treats each of the
// n by itself; a sum over all of them needs parts that depend on n alone. f may need
// scratch memory for each range, which it makes or has from Threads of them. A panic in f
// is raised again in the caller.
func Parallel(n, grain int, f func(lo, hi int)) { simd.Parallel(n, grain, f) }

// Threads returns how many ranges Parallel makes at most, and how many threads Multiply
// uses.
func Threads() int { return simd.Threads() }

// isMuch is from how many elements of scratch memory on it is given back before there is more: 16 MiB.
const isMuch = 4 << 20

// Grow returns n elements of scratch memory that a kernel keeps from call to call, with
// what they held before. It replaces *buf where that is too small. Much of it is in large pages, as tensors are: products
// that write their results into small ones are a tenth slower.
func Grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		if cap(*buf) >= isMuch {
			*buf = nil
			debug.FreeOSMemory() // or both would be in memory until the next collection
		}
		*buf = large(n)
	}
	return (*buf)[:n]
}

// large returns n elements in large pages, as far as they fill these.
func large(n int) []float32 {
	x := make([]float32, n)
	if n > 0 {
		hugepage.Advise(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*n))
	}
	return x
}

// largeRoom is large, on a boundary of 64 bytes.
func largeRoom(n int) []float32 {
	x := large(n + 16)
	skip := -uintptr(unsafe.Pointer(&x[0])) % 64 / 4
	return x[skip : skip+uintptr(n)]
}
