package simd

// The register block of the kernel. Nine sums, three elements of b, one of a and one
// product just fit the sixteen vector registers of amd64, of which Go keeps one; a
// block of four by four spills and runs at three quarters of the speed.
const (
	mr = 3
	nr = 3
)

// kernel returns the products of a packed panel of a and one of b, summed over p in
// order: sum[i][j] = a[0][i]*b[0][j] + a[1][i]*b[1][j] + ...
func kernel(a [][mr]float32, b [][nr]float32) (sum [mr][nr]float32) {
	b = b[:len(a)] // one bounds check here, none in the loop
	var s00, s01, s02, s10, s11, s12, s20, s21, s22 float32
	for p := range a {
		x, y := &a[p], &b[p]
		b0, b1, b2 := y[0], y[1], y[2]
		v := x[0]
		s00 += v * b0
		s01 += v * b1
		s02 += v * b2
		v = x[1]
		s10 += v * b0
		s11 += v * b1
		s12 += v * b2
		v = x[2]
		s20 += v * b0
		s21 += v * b1
		s22 += v * b2
	}
	return [mr][nr]float32{{s00, s01, s02}, {s10, s11, s12}, {s20, s21, s22}}
}
