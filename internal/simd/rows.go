package simd

// DotRows sets y[i][j] = x[i] . w[j] for rows i < m and j < n of k elements each, which lie a stride apart. It reads
// each row of w once for several of x, and nothing is packed. A row has the same bits whatever the others are.
func DotRows(m, n, k int, x []float32, strideX int, w []float32, strideW int, y []float32, strideY int) {
	Matrix{Data: x, Stride: strideX}.check(m, k, false, shortA)
	Matrix{Data: w, Stride: strideW}.check(n, k, false, shortB)
	Matrix{Data: y, Stride: strideY}.check(m, n, false, shortC)
	if m == 0 || n == 0 {
		return
	}
	for i := range m {
		clear(y[i*strideY:][:n])
	}
	for i := 0; i < m && k > 0; {
		rows, kernel := active.few.plain.of(m - i)
		kernel(k, &x[i*strideX], 4*strideX, bytesAt(w, 0), 4*strideW, n, &y[i*strideY], 4*strideY, nil)
		i += rows
	}
}

// AddRows adds p[i][j] * v[j] to y[i] for rows i < m of y and j < n of v, of k elements each, which lie a stride apart:
// each product is rounded, and the first row of v is added first.
func AddRows(m, n, k int, p []float32, strideP int, v []float32, strideV int, y []float32, strideY int) {
	Matrix{Data: p, Stride: strideP}.check(m, n, false, shortA)
	Matrix{Data: y, Stride: strideY}.check(m, k, false, shortC)
	Matrix{Data: v, Stride: strideV}.check(n, k, false, shortB)
	whole := 0 // elements, of whole vectors
	if active.addRows != nil {
		whole = k - k%active.few.lanes
	}
	for from := 0; from < n; from += rowsAtOnce {
		to := min(from+rowsAtOnce, n)
		for i := 0; i < m && whole > 0; i++ {
			active.addRows(whole, to-from, &p[i*strideP+from], &v[from*strideV], 4*strideV, &y[i*strideY])
		}
		for j := from; j < to && whole < k; j++ {
			rest := v[j*strideV+whole:][:k-whole]
			for i := range m {
				active.axpy(p[i*strideP+j], rest, y[i*strideY+whole:][:k-whole])
			}
		}
	}
}

// rowsAtOnce is how many rows AddRows adds to each of y, so that they stay in the first-level cache for all.
const rowsAtOnce = 16
