package vector

import "github.com/seed98097648/tune/internal/simd"

// Add sets dst[i] = a[i] + b[i]. dst may be a or b.
func Add(dst, a, b []float32) { simd.Add(dst, a, b) }

// Mul sets dst[i] = a[i] * b[i]. dst may be a or b.
func Mul(dst, a, b []float32) { simd.Mul(dst, a, b) }

// MulAdd adds a[i]*b[i] to dst[i], the product rounded first.
func MulAdd(dst, a, b []float32) { simd.MulAdd(dst, a, b) }

// Scale sets dst[i] = s * x[i]. dst may be x.
func Scale(dst, x []float32, s float32) { simd.Scale(dst, x, s) }

// Axpy adds alpha*x[i] to y[i], the product rounded first.
func Axpy(alpha float32, x, y []float32) { simd.Axpy(alpha, x, y) }

// Dot returns the sum of a[i]*b[i]. It adds in float32 within parts of 1024 elements and in
// float64 from one part to the next, as Dot3 does, so that the error does not grow with
// the length.
func Dot(a, b []float32) float32 { return simd.Dot(a, b) }

// Dot3 returns the sum of a[i]*b[i]*c[i].
func Dot3(a, b, c []float32) float32 { return simd.Dot3(a, b, c) }

// SumSquares returns the sum of x[i]*x[i], multiplied and added in float64.
func SumSquares(x []float32) float64 { return simd.SumSquares(x) }

// Max returns the largest element, -Inf of none. With a NaN among them it may be any.
func Max(x []float32) float32 { return simd.Max(x) }

// ExpSum sets dst[i] = exp(scale*x[i] - shift) and returns the sum of dst. With the
// maximum of scale*x for shift it is what a softmax divides, and by what. Exponentials are
// within two units in the last place. dst may be x.
func ExpSum(dst, x []float32, scale, shift float32) float64 { return simd.ExpSum(dst, x, scale, shift) }

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])), to a few units in the last place. dst may be x.
func Sigmoid(dst, x []float32) { simd.Sigmoid(dst, x) }

// SoftmaxGrad sets dst[i] = p[i] * (dp[i] - dot) * scale: the gradient of the scores of
// a softmax with probabilities p, where dot is that of p and dp. dst may be dp.
func SoftmaxGrad(dst, p, dp []float32, dot, scale float32) { simd.SoftmaxGrad(dst, p, dp, dot, scale) }
