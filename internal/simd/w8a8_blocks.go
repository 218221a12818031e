//go:build (amd64 || arm64) && !noasm

package simd

// blockFunctions compute blocks of one row or of all, and of one column or of four.
type blockFunctions = [2][2]func(k int, q, w *int8, sums *int32)

// inVectors makes a kernel's function out of those for whole vectors of sixteen; it adds the rest to the sums.
func inVectors(most int, blocks *blockFunctions) func(sums []int32, q, w []int8, of []int32, k int) {
	return func(sums []int32, q, w []int8, _ []int32, k int) {
		rows, cols, whole := len(q)/k, len(w)/k, k&^15
		parts(rows, cols, most, func(i, j, r, c int) {
			own := room(sums, i, r, c, cols)
			blocks[r/most][c/4](k, &q[i*k], &w[j*k], &own[0])
			for a := range r {
				for b := range c {
					sums[(i+a)*cols+j+b] = own[a*c+b] + dotInt8(q[(i+a)*k+whole:(i+a+1)*k], w[(j+b)*k+whole:(j+b+1)*k])
				}
			}
		})
	}
}

// room is where a part from row i on has its sums: in their place if it has all columns, since others do not lie side by
// side there.
func room(sums []int32, i, rows, cols, all int) []int32 {
	if cols == all {
		return sums[i*all:]
	}
	return make([]int32, rows*cols)
}

// parts calls f for each part of a block for which there is a function: of all rows it has or of one, and of four
// columns or of one.
func parts(rows, cols, most int, f func(i, j, rows, cols int)) {
	if rows < most {
		most = 1
	}
	for i := 0; i < rows; i += most {
		if cols == 4 {
			f(i, 0, most, 4)
			continue
		}
		for j := range cols {
			f(i, j, most, 1)
		}
	}
}
