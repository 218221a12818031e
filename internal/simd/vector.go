package simd

import "math"

const badLength = "simd: slices differ in length"

// Dot returns the sum of a[i]*b[i]. Blocks of it are summed in float32 and the blocks
// in float64, so that the error does not grow with the length.
func Dot(a, b []float32) float32 {
	if len(a) != len(b) {
		panic(badLength)
	}
	const block = 256
	var total float64
	for len(a) > block {
		total += float64(dotBlock(a[:block], b[:block]))
		a, b = a[block:], b[block:]
	}
	return float32(total + float64(dotBlock(a, b)))
}

func dotBlock(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	b = b[:len(a)]
	for i, v := range a {
		s0 += v * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// Axpy adds alpha*x[i] to y[i].
func Axpy(alpha float32, x, y []float32) {
	if len(x) != len(y) {
		panic(badLength)
	}
	y = y[:len(x)]
	for i, v := range x {
		y[i] += alpha * v
	}
}

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])), to a few units in the last place. dst may be x.
func Sigmoid(dst, x []float32) {
	if len(dst) != len(x) {
		panic(badLength)
	}
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = 1 / (1 + exp(-v))
	}
}

// exp returns e^x: with n the integer nearest to x/ln 2, it is 2^n times the Taylor
// series of e^r at r = x - n ln 2. As |r| <= (ln 2)/2, the first term left out is below
// 2^-27 of the sum.
func exp(x float32) float32 {
	const (
		log2e = 1 / math.Ln2
		ln2Hi = 0x1.62e4p-1 // so few bits that n*ln2Hi is exact
		ln2Lo = math.Ln2 - ln2Hi
		// Adding magic leaves no bits for a fraction, so it rounds to an integer, which
		// then is in the lowest bits.
		magic     = 3 << 22
		magicBits = 0x4b400000
	)
	switch {
	case x != x:
		return x
	case x > 88.8:
		return float32(math.Inf(1))
	case x < -104:
		return 0
	}
	shifted := x*log2e + magic
	n := int32(math.Float32bits(shifted)) - magicBits
	r := x - (shifted-magic)*ln2Hi
	r -= (shifted - magic) * ln2Lo
	p := float32(1.0 / 5040)
	p = p*r + 1.0/720
	p = p*r + 1.0/120
	p = p*r + 1.0/24
	p = p*r + 1.0/6
	p = p*r + 1.0/2
	p = p*(r*r) + r + 1
	half := n >> 1 // in two steps, since 2^n itself may not be a float32
	return p * power2(half) * power2(n-half)
}

func power2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }
