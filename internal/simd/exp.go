package simd

// ExpSum sets dst[i] = exp(scale*x[i] - shift), within two units in the last place, and returns
// the sum of dst. With the maximum of scale*x for shift it is what a softmax divides, and by what. dst may be x.
func ExpSum(dst, x []float32, scale, shift float32) float64 {
	same(len(dst), len(x))
	var total float64
	for len(x) > sumBlock {
		total += float64(active.expSum(dst[:sumBlock], x[:sumBlock], scale, shift))
		dst, x = dst[sumBlock:], x[sumBlock:]
	}
	return total + float64(active.expSum(dst, x, scale, shift))
}

// SoftmaxGrad sets dst[i] = p[i] * (dp[i] - dot) * scale: the gradient of the scores of
// a softmax with probabilities p, where dot is that of p and dp. dst may be dp.
func SoftmaxGrad(dst, p, dp []float32, dot, scale float32) {
	same(len(dst), len(p), len(dp))
	active.softmaxGrad(dst, p, dp, dot, scale)
}

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])), to a few units in the last place. dst may be x.
func Sigmoid(dst, x []float32) {
	same(len(dst), len(x))
	active.sigmoid(dst, x)
}

// SiLU sets dst[i] = x[i] * sigmoid(x[i]). dst may be x.
func SiLU(dst, x []float32) {
	same(len(dst), len(x))
	active.silu(dst, x)
}

// SiLUGrad sets dx[i] = dy[i] * (s + x[i]*s*(1-s)), s = sigmoid(x[i]). dx may be dy or x.
func SiLUGrad(dx, dy, x []float32) {
	same(len(dx), len(dy), len(x))
	active.siluGrad(dx, dy, x)
}
