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
	whole := 0
	if active.addRows != nil && n > 0 {
		whole = k - k%active.few.lanes
	}
	for i := range m {
		if whole > 0 {
			active.addRows(whole, n, &p[i*strideP], &v[0], 4*strideV, &y[i*strideY])
		}
		if whole == k {
			continue
		}
		for j := range n {
			active.axpy(p[i*strideP+j], v[j*strideV+whole:][:k-whole], y[i*strideY+whole:][:k-whole])
		}
	}
}
