package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Load widens elements [from, from+len(dst)) of a floating-point tensor to dst: what
// x.Load does, faster. It is exact, except that float64 is rounded.
func Load(dst []float32, x core.Tensor, from int) {
	switch x.DType {
	case core.BFloat16:
		simd.BFloat16ToFloat32(dst, x.Uint16s()[from:from+len(dst)])
	case core.Float16:
		simd.Float16ToFloat32(dst, x.Uint16s()[from:from+len(dst)])
	default:
		x.Load(dst, from)
	}
}

// Store rounds src to elements [from, from+len(src)) of x, to nearest even: what x.Store
// does, faster. What is too large for float16 becomes infinity; NaN stays NaN.
func Store(x core.Tensor, src []float32, from int) {
	switch x.DType {
	case core.BFloat16:
		simd.Float32ToBFloat16(x.Uint16s()[from:from+len(src)], src)
	case core.Float16:
		simd.Float32ToFloat16(x.Uint16s()[from:from+len(src)], src)
	default:
		x.Store(src, from)
	}
}

// Wide returns where a kernel computes an output in float32: in the output's own place if it
// is float32, else in memory that is kept in buf as Grow keeps it, from where Narrow takes it.
func Wide(buf *[]float32, out core.Tensor) []float32 {
	if out.DType == core.Float32 {
		return out.Float32s()
	}
	return Grow(buf, out.Elems())
}

// Narrow rounds an output that Wide had computed elsewhere into its place, over all threads.
func Narrow(out core.Tensor, wide []float32) {
	if out.DType != core.Float32 {
		Parallel(len(wide), 1<<14, func(lo, hi int) { Store(out, wide[lo:hi], lo) })
	}
}

// Round rounds each element of v to what d can store: nothing changes for float32. bits is
// room for as many elements, or more. It is for values that an op rounds on their way.
func Round(v []float32, d core.DType, bits []uint16) {
	bits = bits[:len(v)]
	switch d {
	case core.BFloat16:
		simd.Float32ToBFloat16(bits, v)
		simd.BFloat16ToFloat32(v, bits)
	case core.Float16:
		simd.Float32ToFloat16(bits, v)
		simd.Float16ToFloat32(v, bits)
	}
}
