package simd

import "math"

// RoundRandomly rounds to bfloat16, up or down, the likelier the nearer: the lower half of the bits is compared
// with a random one, a function of key and of the element's index, from + i. What is finite stays finite.
func RoundRandomly(dst []uint16, src []float32, key, from uint32) {
	same(len(dst), len(src))
	n := 0
	if f := active.roundRandomly; f != nil {
		n = len(dst) &^ 15
		f(dst[:n], src[:n], key, from)
	}
	for i, x := range src[n:] {
		dst[n+i] = roundAt(x, key, from+uint32(n+i))
	}
}

// roundAt mixes the bits of the index as MurmurHash3 does its last ones (Appleby, public domain).
func roundAt(x float32, key, index uint32) uint16 {
	h := index*0x9e3779b1 ^ key
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	const infinite = 0x7f800000
	bits := math.Float32bits(x)
	if up := bits + h>>16; up&infinite != infinite {
		bits = up
	}
	return uint16(bits >> 16)
}
