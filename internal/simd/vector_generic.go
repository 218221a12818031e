package simd

func dotGeneric(a, b []float32) float32 {
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

func dot3Generic(a, b, c []float32) float32 {
	var s0, s1 float32
	for len(a) >= 2 && len(b) >= 2 && len(c) >= 2 {
		s0 += a[0] * b[0] * c[0]
		s1 += a[1] * b[1] * c[1]
		a, b, c = a[2:], b[2:], c[2:]
	}
	for i, v := range a {
		s0 += v * b[i] * c[i]
	}
	return s0 + s1
}

func maximumGeneric(x []float32) float32 {
	m := x[0]
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func sumSquaresGeneric(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

func dotWideGeneric(a, b []float32) float64 {
	var sum float64
	b = b[:len(a)]
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

func addProductsGeneric(sum []float64, a, b []float32) {
	sum, b = sum[:len(a)], b[:len(a)]
	for i, v := range a {
		sum[i] += float64(v) * float64(b[i])
	}
}

func addGeneric(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func mulGeneric(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func mulAddGeneric(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] += float32(a[i] * b[i])
	}
}

func scaleGeneric(dst, x []float32, s float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = s * x[i]
	}
}

func axpyGeneric(alpha float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(alpha * v)
	}
}
