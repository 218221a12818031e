package simd

import "math"

// expSumGeneric subtracts in float64, in which the product is exact, as a fused
// multiply-add would: with large scores the rounding of the product would show.
func expSumGeneric(dst, x []float32, scale, shift float32) float32 {
	dst = dst[:len(x)]
	var s [4]float32
	for i, v := range x {
		e := exp(float32(float64(scale)*float64(v) - float64(shift)))
		dst[i] = e
		s[i%4] += e
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func softmaxGradGeneric(dst, p, dp []float32, dot, scale float32) {
	p, dp = p[:len(dst)], dp[:len(dst)]
	for i := range dst {
		dst[i] = p[i] * (dp[i] - dot) * scale
	}
}

func sigmoidGeneric(dst, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = sigmoid(v)
	}
}

func siluGeneric(dst, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = v * sigmoid(v)
	}
}

func siluGradGeneric(dx, dy, x []float32) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	for i, v := range x {
		s := sigmoid(v)
		dx[i] = dy[i] * (s + v*s*(1-s))
	}
}

func swigluGeneric(dst, gate, up []float32) {
	dst, up = dst[:len(gate)], up[:len(gate)]
	for i, g := range gate {
		dst[i] = g * sigmoid(g) * up[i]
	}
}

func swigluGradGeneric(dgate, dup, dy, gate, up []float32) {
	dgate, dup, dy, up = dgate[:len(gate)], dup[:len(gate)], dy[:len(gate)], up[:len(gate)]
	for i, g := range gate {
		s, d, u := sigmoid(g), dy[i], up[i]
		silu := g * s
		dup[i] = d * silu
		dgate[i] = d * u * (s + silu*(1-s))
	}
}

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

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
