package opdef

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// The quantisation of activations to int8. Which whole number a quotient becomes is decided in float32 unless
// activations are stored in float64, so that it is the same in every arithmetic: with x of that storage, a kernel
// that divides in float32 and rounds to nearest even has the same numbers.

// QuantiseStatic returns clamp(round(x/scale) + offset) of each element, to nearest even, and 0 + offset of a NaN.
func QuantiseStatic[F Float](d core.DType, x []F, scale F, offset int32) []int8 {
	q := make([]int8, len(x))
	for i, v := range x {
		r := min(max(rounded(d, v, scale), -1<<16), 1<<16) // far beyond int8, and no overflow of the sum
		q[i] = int8(min(max(int32(r)+offset, math.MinInt8), math.MaxInt8))
	}
	return q
}

// QuantiseRow returns multiples of s = max|x|/127 that are nearest to the elements; s is 1 where that is 0, as for
// a row of zeros. A row that is not finite has an s that is not, and zeros.
func QuantiseRow[F Float](d core.DType, x []F) (q []int8, s F) {
	for _, v := range x {
		s = max(s, F(math.Abs(float64(v)))) // which keeps a NaN
	}
	if s /= math.MaxInt8; d != core.Float64 {
		s = F(float32(s))
	}
	if s == 0 {
		s = 1
	}
	q = make([]int8, len(x))
	for i, v := range x {
		q[i] = int8(min(max(rounded(d, v, s), math.MinInt8), math.MaxInt8))
	}
	return q, s
}

// rounded is the whole number nearest to x/scale, 0 for none.
func rounded[F Float](d core.DType, x, scale F) float64 {
	quotient := float64(x) / float64(scale)
	if d != core.Float64 {
		quotient = float64(float32(x) / float32(scale))
	}
	if quotient != quotient {
		return 0
	}
	return math.RoundToEven(quotient)
}

// Int8Sums returns the dot products of the rows of a weight with q, plus a bias unless that is nil. Sums are exact
// as long as they fit int32.
func Int8Sums(weight, q []int8, bias []int32) []int32 {
	sums := make([]int32, len(weight)/len(q))
	copy(sums, bias)
	for n := range sums {
		for i, w := range weight[n*len(q):][:len(q)] {
			sums[n] += int32(w) * int32(q[i])
		}
	}
	return sums
}

// Dequantised sets y[n] = (sums[n] * s) * scale[n] + bias[n], without bias if that is nil. In float32 every
// operation is rounded, and the sum first.
func Dequantised[F Float](y []F, sums []int32, s F, scale, bias []float32) {
	for n, sum := range sums {
		y[n] = F(F(F(sum)*s) * F(scale[n]))
		if bias != nil {
			y[n] += F(bias[n])
		}
	}
}

// HalfWay has the elements of every fourth token of x, from the second on, lie in the middle between two whole
// multiples of the scale of the token, or of a given one, as near as float32 comes: only who divides in float32 and
// rounds to nearest even has the right numbers of all.
func HalfWay(in map[string][]core.Tensor) {
	const most = 2.203125 // bfloat16 has it
	scale := float32(most) / math.MaxInt8
	if given := in["input_scale"]; given != nil {
		scale = given[0].Float32s()[0]
	}
	Each(func(t, i int, v float64) float64 {
		switch {
		case t%4 != 1:
			return v
		case i == 0:
			return most
		}
		return float64((float32(i%(2*math.MaxInt8)-math.MaxInt8) + 0.5) * scale)
	}, "x")(in)
}
