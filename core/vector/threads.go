package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/internal/storage"
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

// Grow returns n elements of scratch memory that a kernel keeps from call to call, with
// what they held before. It replaces *buf where that is too small.
func Grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}

// Load widens elements [from, from+len(dst)) of a floating-point tensor to dst: what
// x.Load does, faster. It is exact, except that float64 is rounded.
func Load(dst []float32, x core.Tensor, from int) { storage.Load(dst, x, from) }

// Store rounds src to elements [from, from+len(src)) of x, to nearest even: what x.Store
// does, faster. What is too large for float16 becomes infinity; NaN stays NaN.
func Store(x core.Tensor, src []float32, from int) { storage.Store(x, src, from) }

// Round rounds each element of v to what d can store: nothing changes for float32. bits is
// room for as many elements, or more. It is for values that an op rounds on their way.
func Round(v []float32, d core.DType, bits []uint16) { storage.Round(v, d, bits) }
