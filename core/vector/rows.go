package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

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

// DotRows sets y[i][j] = x[i] . w[j] for rows i < m of x and j < n of w, of k elements each, which lie a stride
// apart; y has one of its own. Each row of w is read once for several of x, and nothing is packed: it is for
// few rows of x. A row of y has the same bits however many others there are.
func DotRows(m, n, k int, x []float32, strideX int, w []float32, strideW int, y []float32, strideY int) {
	simd.DotRows(m, n, k, x, strideX, w, strideW, y, strideY)
}

// AddRows adds p[i][j] * v[j] to y[i] for rows i < m of y and j < n of v, of k elements each, which lie a
// stride apart; p has one of its own. The first row of v is added first. A row of y has
// the same bits however many others there are.
func AddRows(m, n, k int, p []float32, strideP int, v []float32, strideV int, y []float32, strideY int) {
	simd.AddRows(m, n, k, p, strideP, v, strideV, y, strideY)
}
