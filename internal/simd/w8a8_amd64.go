//go:build !noasm

package simd

// int8Assembly returns the kernels of int8 products that this CPU can run.
func int8Assembly() []*int8Kernel {
	var can []*int8Kernel
	for _, set := range instructionSets {
		if set.int8 != nil && set.there() {
			can = append(can, set.int8)
		}
	}
	return can
}

var int8VNNI = int8Kernel{name: "vnni", rows: 4, cols: 4, block: func(sums []int32, q, w []int8, of []int32, k int) {
	rows, cols := len(q)/k, len(w)/k
	parts(rows, cols, 4, func(i, j, r, c int) {
		own := room(sums, i, r, c, cols)
		blocksVNNI[r/4][c/4](k, &q[i*k], &w[j*k], &own[0])
		for a := range r {
			for b := range c {
				sums[(i+a)*cols+j+b] = own[a*c+b] - of[i+a]<<7
			}
		}
	})
}}

var int8AVX2 = int8Kernel{name: "avx2", rows: 2, cols: 4, block: inVectors(2, &blocksInt8AVX2)}

// The functions of blocks of one row or of all, and of one column or of four.
var (
	blocksVNNI = blockFunctions{
		{int8Block1x1VNNI, int8Block1x4VNNI}, {int8Block4x1VNNI, int8Block4x4VNNI}}
	blocksInt8AVX2 = blockFunctions{
		{int8Block1x1AVX2, int8Block1x4AVX2}, {int8Block2x1AVX2, int8Block2x4AVX2}}
)
