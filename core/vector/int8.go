package vector

import "github.com/seed98097648/tune/internal/simd"

// W8A8 is a linear layer that multiplies int8 by int8, as the op linear_w8a8 has it: its method Multiply computes
// rows of float32, Y [M, N], from X [M, K] and the whole numbers of Weight [N, K], whose rows Scale multiplies. With Static
// it takes InputScale, InputOffset and QuantBias; without, a scale for each row of X, and Bias unless that is nil. The
// result has the same bits on every machine.
type W8A8 = simd.W8A8

// MultiplyW8A8 computes layers of one X, whose rows become int8 once, as the first layer says.
func MultiplyW8A8(layers ...*W8A8) { simd.MultiplyW8A8(layers...) }
