package opdef

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// WidenNF4 multiplies the values of a weight in NF4 by the absmax of their blocks, which are made of codes and scale,
// see core.NF4Sizes. As they are part of what is stored, the arithmetic is float32.
func WidenNF4[F Float](weight, codes, scale []F) {
	nested := scale[1<<8:]
	for i := range weight {
		block := i / core.NF4Block
		code, by := float32(scale[uint8(int8(codes[block]))]), float32(nested[1+block/core.NF4Nested])
		absmax := float32(code*by) + float32(nested[0])
		weight[i] = F(float32(weight[i]) * absmax)
	}
}

// FillNF4Scale makes of v what absmax of weights of so many terms are made of. Of an odd number the map is none that
// whole numbers are, as in checkpoints that others made.
func FillNF4Scale(terms int, v []float32) {
	mean := 2 / float32(math.Sqrt(float64(max(terms, 1))))
	for i := range v {
		switch {
		case i < 1<<8:
			n := float32(int8(i))
			if terms%2 == 1 {
				n = n * float32(math.Abs(float64(n))) / (1 << 7)
			}
			v[i] = n
		case i == 1<<8:
			v[i] = mean
		default:
			v[i] = mean / (2 * (Int8Size + min(Int8Size, float32(math.Abs(float64(v[i]))))))
		}
	}
}
