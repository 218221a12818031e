package simd

import "math"

// BFloat16ToFloat32 widens the bits of bfloat16 numbers, exactly.
func BFloat16ToFloat32(dst []float32, src []uint16) {
	same(len(dst), len(src))
	active.fromBFloat16(dst, src)
}

// Float32ToBFloat16 rounds to nearest even, into the bits of bfloat16 numbers. A NaN
// stays one and becomes quiet.
func Float32ToBFloat16(dst []uint16, src []float32) {
	same(len(dst), len(src))
	active.toBFloat16(dst, src)
}

// Float16ToFloat32 widens the bits of IEEE 754 binary16 numbers, exactly.
func Float16ToFloat32(dst []float32, src []uint16) {
	same(len(dst), len(src))
	active.fromFloat16(dst, src)
}

// Float32ToFloat16 rounds to nearest even, into the bits of IEEE 754 binary16 numbers.
// What is too large becomes infinity; a NaN stays one and becomes quiet.
func Float32ToFloat16(dst []uint16, src []float32) {
	same(len(dst), len(src))
	active.toFloat16(dst, src)
}

func fromBFloat16Generic(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, b := range src {
		dst[i] = math.Float32frombits(uint32(b) << 16)
	}
}

func toBFloat16Generic(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		u := math.Float32bits(v)
		if v != v {
			dst[i] = uint16(u>>16) | 0x40
		} else {
			dst[i] = uint16((u + 0x7fff + u>>16&1) >> 16)
		}
	}
}

func fromFloat16Generic(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
		switch exponent {
		case 0: // zero and subnormals: fraction * 2^-24
			dst[i] = math.Float32frombits(math.Float32bits(float32(fraction)*0x1p-24) | sign)
			continue
		case 0x1f: // infinity and NaN, which becomes quiet
			exponent = 0xff - 112
			if fraction != 0 {
				fraction |= 0x200
			}
		}
		dst[i] = math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	}
}

func toFloat16Generic(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		u := math.Float32bits(v)
		sign, u := uint16(u>>16&0x8000), u&0x7fffffff
		switch {
		case v != v:
			dst[i] = sign | 0x7e00 | uint16(u>>13&0x3ff)
		case u >= 0x47800000: // 65536 and above
			dst[i] = sign | 0x7c00
		case u < 0x38800000: // below the smallest normal: the addition rounds to 2^-24
			dst[i] = sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-math.Float32bits(0.5))
		default:
			dst[i] = sign | uint16((u-0x38000000+0xfff+u>>13&1)>>13)
		}
	}
}
