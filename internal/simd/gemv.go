package simd

// FewRows is how many rows of a Product with Dots may have for it to be computed from dot
// products, if B is transposed. Such a product is bound by the bandwidth of memory: every
// element of b is used once for each row of a. To pack b would read it, write it and read
// it again; a row of b and a row of a make a dot product as they are. With more rows than
// this, to pack b is cheaper than to add up so many dot products over it.
//
// The two ways add in different orders, and so round differently. Without Dots the bits of
// a row do not depend on how many others there are; who sets it says that the number of
// rows is the same whenever bits are compared, as that of the tokens in a graph is.
const FewRows = 8

// rowBlock is how much of a row is added up in float32, in as many sums as the vectors of
// a dot product have lanes; the rest is added in float64. It is what fits scratch.wide.
const rowBlock = wideRows * tileK

// byRows reports whether the product is computed from dot products of rows.
func (p *Product) byRows() bool {
	return p.Dots && p.M <= FewRows && p.K > 0 && p.TransB && !p.TransA && p.A.plain()
}

// cutRows appends the tiles of a product of few rows: pieces of b, several for each of
// the goroutines, for they do not all get the same share of the memory's bandwidth.
func (p *Product) cutRows(tiles []tile, share int) []tile {
	pieces := 1
	if share > 1 {
		pieces = 4 * share
	}
	width := ceilDiv(p.N, pieces)
	for j := 0; j < p.N; j += width {
		tiles = append(tiles, tile{p, 0, p.M, j, min(j+width, p.N)})
	}
	return tiles
}

// dots computes a tile of few rows.
func (t tile) dots(s *scratch) {
	for j := t.j0; j < t.j1; j++ {
		var sums [FewRows]float64
		for k0 := 0; k0 < t.K; k0 += rowBlock {
			k1 := min(k0+rowBlock, t.K)
			b := t.B.row(s.wide[:], j, k0, k1)
			for i := range t.M {
				sums[i] += float64(active.dot(t.A.Data[i*t.A.Stride+k0:i*t.A.Stride+k1], b))
			}
		}
		for i, sum := range sums[:t.M] {
			c := &t.C[i*t.StrideC+j]
			if t.Accumulate {
				sum += float64(*c)
			}
			*c = float32(sum)
		}
	}
	t.finish(0, t.M)
}

// row returns elements [k0, k1) of a stored row as float32, in room unless they are.
func (x Matrix) row(room []float32, row, k0, k1 int) []float32 {
	at := row * x.Stride
	if x.plain() {
		return x.Data[at+k0 : at+k1]
	}
	x.widen(room[:k1-k0], at+k0)
	return room[:k1-k0]
}
