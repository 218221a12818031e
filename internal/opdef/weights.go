package opdef

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

// Int8Size is how large weights in int8 usually are: a third of the largest.
const Int8Size = 40

// FillWeight makes of standard normal values a weight, of which so many elements are added up in a
// product, such that this stays near 1.
func FillWeight(a core.Arg, terms int, v []float32) {
	by := 1 / float32(math.Sqrt(float64(max(terms, 1))))
	switch a.DType {
	case core.Int8:
		by = Int8Size
	case core.NF4:
		by = 0.5 // of the largest value
	}
	for i := range v {
		v[i] *= by
	}
}

// FillScale makes of them what the rows of a weight in int8 are multiplied by.
func FillScale(terms int, v []float32) {
	for i := range v {
		v[i] = (1 + float32(math.Abs(float64(v[i])))) / (Int8Size * float32(math.Sqrt(float64(terms))))
	}
}

// ScaleRows multiplies the rows of a weight in int8, of any other by nothing.
func ScaleRows[F Float](weight, scale []F) {
	for n, s := range scale {
		row := weight[n*len(weight)/len(scale):][:len(weight)/len(scale)]
		for i := range row {
			row[i] *= s
		}
	}
}

// FillQuantBias makes the quantised biases of the rows of a weight: what undoes the offset of activations, and some
// whole number beside it.
func FillQuantBias(rng *rand.Rand, bias []int32, weight []int8, offset int32) {
	for n := range bias {
		sum := int32(rng.IntN(2001)) - 1000
		for _, w := range weight[n*len(weight)/len(bias):][:len(weight)/len(bias)] {
			sum -= offset * int32(w)
		}
		bias[n] = sum
	}
}

// AtTheEnds makes every second row of a weight in int8 of the largest and smallest numbers that there are, of one
// sign in runs, so that sums which are kept in int16 on the way saturate.
func AtTheEnds(weight core.Tensor) {
	dim := weight.Shape[1]
	for i, w := 0, weight.Int8s(); i < len(w); i++ {
		if i/dim%2 == 0 {
			w[i] = [2]int8{127, -128}[i%dim/8%2]
		}
	}
}
