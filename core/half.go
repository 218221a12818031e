package core

import (
	"fmt"
	"math"
)

// Load widens elements [from, from+len(dst)) of a floating-point tensor to float32.
// It is how kernels read bfloat16 and float16 storage; float64 is rounded.
func (t Tensor) Load(dst []float32, from int) {
	switch t.DType {
	case Float32:
		copy(dst, t.Float32s()[from:from+len(dst)])
	case BFloat16:
		for i, b := range t.Uint16s()[from : from+len(dst)] {
			dst[i] = BFloat16ToFloat32(b)
		}
	case Float16:
		for i, h := range t.Uint16s()[from : from+len(dst)] {
			dst[i] = Float16ToFloat32(h)
		}
	case Float64:
		for i, v := range t.Float64s()[from : from+len(dst)] {
			dst[i] = float32(v)
		}
	case Int8:
		for i, v := range t.Int8s()[from : from+len(dst)] {
			dst[i] = float32(v)
		}
	case NF4:
		for i := range dst {
			dst[i] = NF4Values[t.Data[(from+i)/2]>>(4*(1-(from+i)%2))&15]
		}
	default:
		panic(fmt.Sprintf("core: Load from a %s tensor", t.DType))
	}
}

// Store narrows src to the tensor's dtype, rounding to nearest even, into
// elements [to, to+len(src)). It is the inverse of Load.
func (t Tensor) Store(src []float32, to int) {
	switch t.DType {
	case Float32:
		copy(t.Float32s()[to:to+len(src)], src)
	case BFloat16:
		for i, dst := 0, t.Uint16s()[to:to+len(src)]; i < len(src); i++ {
			dst[i] = Float32ToBFloat16(src[i])
		}
	case Float16:
		for i, dst := 0, t.Uint16s()[to:to+len(src)]; i < len(src); i++ {
			dst[i] = Float32ToFloat16(src[i])
		}
	case Float64:
		for i, dst := 0, t.Float64s()[to:to+len(src)]; i < len(src); i++ {
			dst[i] = float64(src[i])
		}
	case Int8:
		for i, dst := 0, t.Int8s()[to:to+len(src)]; i < len(src); i++ {
			dst[i] = int8(min(math.MaxInt8, max(math.MinInt8, math.RoundToEven(float64(src[i])))))
		}
	case NF4:
		for i, v := range src {
			b, shift := &t.Data[(to+i)/2], 4*(1-(to+i)%2)
			*b = *b&^(15<<shift) | nf4Code(v)<<shift
		}
	default:
		panic(fmt.Sprintf("core: Store to a %s tensor", t.DType))
	}
}

// BFloat16ToFloat32 widens; every bfloat16 is exactly a float32.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBFloat16 rounds to nearest even; a NaN stays a (quiet) NaN.
func Float32ToBFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// Float16ToFloat32 widens an IEEE 754 binary16; the result is exact. It is short enough to be inlined.
func Float16ToFloat32(h uint16) float32 {
	// With the bits at their places what is missing is the difference of the exponents' biases, also for subnormals.
	u := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13)*0x1p112) | uint32(h&0x8000)<<16
	if h&0x7c00 == 0x7c00 { // infinity and NaN, which becomes quiet
		u |= 0x7f800000
		if h&0x3ff != 0 {
			u |= 0x400000
		}
	}
	return math.Float32frombits(u)
}

// Float32ToFloat16 rounds to nearest even; what is too large becomes infinity.
func Float32ToFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	sign, u := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case u > 0x7f800000: // NaN, kept quiet
		return sign | 0x7e00 | uint16(u>>13&0x3ff)
	case u >= 0x47800000: // 65536 and above
		return sign | 0x7c00
	case u < 0x38800000: // below the smallest normal: let float32 addition round to 2^-24
		r := math.Float32frombits(u) + 0.5
		return sign | uint16(math.Float32bits(r)-math.Float32bits(0.5))
	}
	return sign | uint16((u-0x38000000+0xfff+u>>13&1)>>13)
}
