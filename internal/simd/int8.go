package simd

// Int8ToFloat32 widens whole numbers and multiplies them: dst[i] = scale*float32(src[i]).
func Int8ToFloat32(dst []float32, src []int8, scale float32) {
	same(len(dst), len(src))
	active.fromInt8(dst, src, scale)
}

func fromInt8Generic(dst []float32, src []int8, scale float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = scale * float32(v)
	}
}
