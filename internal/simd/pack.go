package simd

// A panel holds three rows of op(a), or three columns of op(b), side by side: its
// element p is what the kernel needs at step p. Missing rows of the last panel are
// zero; their sums are computed and thrown away. mr and nr are equal, so that one
// packing serves both operands.

// packRows packs rows [from, to) of a matrix stored with the inner dimension along its
// rows, elements [k0, k0+kn) of each.
func (s *scratch) packRows(dst [][mr]float32, x Matrix, from, to, k0, kn int) {
	var zero [tileK]float32
	for i := from; i < to; i += mr {
		r := [mr][]float32{zero[:kn], zero[:kn], zero[:kn]}
		for q := range min(mr, to-i) {
			r[q] = x.segment((i+q)*x.Stride+k0, kn, s.rows[q][:])
		}
		r0, r1, r2 := r[0][:kn], r[1][:kn], r[2][:kn]
		panel := dst[(i-from)/mr*kn:][:kn]
		for p := range panel {
			panel[p] = [mr]float32{r0[p], r1[p], r2[p]}
		}
	}
}

// packColumns packs columns [from, to) of a matrix stored with the inner dimension
// across its rows: rows [k0, k0+kn).
func (s *scratch) packColumns(dst [][mr]float32, x Matrix, from, to, k0, kn int) {
	n := to - from
	for p := range kn {
		row := x.segment((k0+p)*x.Stride+from, n, s.rows[0][:])
		at := p
		for ; len(row) >= mr; row = row[mr:] {
			dst[at] = [mr]float32{row[0], row[1], row[2]}
			at += kn
		}
		if len(row) > 0 {
			var last [mr]float32
			copy(last[:], row)
			dst[at] = last
		}
	}
}

// segment returns n consecutive elements, widened into buf unless stored as float32.
func (x Matrix) segment(from, n int, buf []float32) []float32 {
	if x.Load == nil {
		return x.Data[from : from+n]
	}
	x.Load(buf[:n], from)
	return buf[:n]
}
