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

var int8VNNI = int8Kernel{name: "vnni", rows: 4, cols: 4, needsSums: true, quantise: quantiseAVX2,
	long:    [3]func(k, n int, q, w *int8, of, sums *int32){int8Columns1VNNI, int8Columns2VNNI, int8Columns4VNNI},
	largest: largestBitsAVX2, scaleSums: scaleSumsAVX2, block: func(sums []int32, q, w []int8, of []int32, k int) {
		rows, cols := len(q)/k, len(w)/k
		r, c := rows/4*3+1, cols/4*3+1 // all or one, of each
		for i := 0; i < rows; i += r {
			for j := 0; j < cols; j += c {
				f := blocksVNNI[r/4][c/4]
				if r == 1 || c == cols {
					f(k, &q[i*k], &w[j*k], &sums[i*cols+j])
					continue
				}
				var own [4]int32 // escapes, so not where there are whole blocks
				f(k, &q[i*k], &w[j*k], &own[0])
				for a, sum := range own {
					sums[(i+a)*cols+j] = sum
				}
			}
		}
		for i := range rows {
			for j := range cols {
				sums[i*cols+j] -= of[i] << 7
			}
		}
	}}

var int8AVX2 = int8Kernel{name: "avx2", rows: 2, cols: 4, block: inVectors(2, &blocksInt8AVX2),
	long: [3]func(k, n int, q, w *int8, of, sums *int32){int8Columns1AVX2, int8Columns2AVX2}, quantise: quantiseAVX2,
	largest: largestBitsAVX2, scaleSums: scaleSumsAVX2}

// The functions of blocks of one row or of all, and of one column or of four.
var (
	blocksVNNI = blockFunctions{
		{int8Block1x1VNNI, int8Block1x4VNNI}, {int8Block4x1VNNI, int8Block4x4VNNI}}
	blocksInt8AVX2 = blockFunctions{
		{int8Block1x1AVX2, int8Block1x4AVX2}, {int8Block2x1AVX2, int8Block2x4AVX2}}
)
