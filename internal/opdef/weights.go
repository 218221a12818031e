package opdef

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// int8Size is how large weights in int8 usually are: a third of the largest.
const int8Size = 40

// FillWeight makes of standard normal values a weight, of which so many elements are added up in a
// product, such that this stays near 1.
func FillWeight(a core.Arg, terms int, v []float32) {
	by := 1 / float32(math.Sqrt(float64(max(terms, 1))))
	if a.DType == core.Int8 {
		by = int8Size
	}
	for i := range v {
		v[i] *= by
	}
}

// FillScale makes of them what the rows of a weight in int8 are multiplied by.
func FillScale(terms int, v []float32) {
	for i := range v {
		v[i] = (1 + float32(math.Abs(float64(v[i])))) / (int8Size * float32(math.Sqrt(float64(terms))))
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
