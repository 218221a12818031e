package vector

import "github.com/seed98097648/tune/core"

// sumGrain is how many elements make it worth another thread.
const sumGrain = 1 << 14

// SumRows adds up the rows of x [T,len(sum)], in float64, so that the error does not grow with their number: the
// gradient of a bias.
func SumRows(sum []float32, x core.Tensor) {
	n, rows := len(sum), x.Shape[0]
	Parallel(n, max(16, sumGrain/max(rows, 1)), func(lo, hi int) {
		row, total := make([]float32, hi-lo), make([]float64, hi-lo)
		for t := range rows {
			Load(row, x, t*n+lo)
			for i, v := range row {
				total[i] += float64(v)
			}
		}
		for i, v := range total {
			sum[lo+i] = float32(v)
		}
	})
}
