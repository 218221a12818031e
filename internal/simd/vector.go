package simd

import "math"

const badLength = "simd: slices differ in length"

// sumBlock is how many elements are summed in float32; the sums of blocks are added in
// float64, so that the error does not grow with the length.
const sumBlock = 1024

// same panics unless all lengths are n.
func same(n int, lengths ...int) {
	for _, l := range lengths {
		if l != n {
			panic(badLength)
		}
	}
}

// Dot returns the sum of a[i]*b[i].
func Dot(a, b []float32) float32 {
	same(len(a), len(b))
	var total float64
	for len(a) > sumBlock {
		total += float64(active.dot(a[:sumBlock], b[:sumBlock]))
		a, b = a[sumBlock:], b[sumBlock:]
	}
	return float32(total + float64(active.dot(a, b)))
}

// Dot3 returns the sum of a[i]*b[i]*c[i].
func Dot3(a, b, c []float32) float32 {
	same(len(a), len(b), len(c))
	var total float64
	for len(a) > sumBlock {
		total += float64(active.dot3(a[:sumBlock], b[:sumBlock], c[:sumBlock]))
		a, b, c = a[sumBlock:], b[sumBlock:], c[sumBlock:]
	}
	return float32(total + float64(active.dot3(a, b, c)))
}

// SumSquares returns the sum of x[i]*x[i], multiplied and added in float64.
func SumSquares(x []float32) float64 { return active.sumSquares(x) }

// DotWide returns the sum of a[i]*b[i], multiplied and added in float64.
func DotWide(a, b []float32) float64 {
	same(len(a), len(b))
	return active.dotWide(a, b)
}

// AddProducts adds a[i]*b[i] to sum[i], multiplied and added in float64.
func AddProducts(sum []float64, a, b []float32) {
	same(len(sum), len(a), len(b))
	active.addProducts(sum, a, b)
}

// Max returns the largest element, -Inf of none. With a NaN among them it may be any.
func Max(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.Inf(-1))
	}
	return active.maximum(x)
}

// Add sets dst[i] = a[i] + b[i]. dst may be a or b.
func Add(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	active.add(dst, a, b)
}

// Mul sets dst[i] = a[i] * b[i]. dst may be a or b.
func Mul(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	active.mul(dst, a, b)
}

// MulAdd adds a[i]*b[i] to dst[i], the product rounded first.
func MulAdd(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	active.mulAdd(dst, a, b)
}

// Scale sets dst[i] = s * x[i]. dst may be x.
func Scale(dst, x []float32, s float32) {
	same(len(dst), len(x))
	active.scale(dst, x, s)
}

// Axpy adds alpha*x[i] to y[i], the product rounded first.
func Axpy(alpha float32, x, y []float32) {
	same(len(x), len(y))
	active.axpy(alpha, x, y)
}
