package vector

import (
	"slices"

	"github.com/seed98097648/tune/internal/simd"
)

// HasTiles reports whether this processor has units that multiply matrices of bfloat16 in tiles, as
// Intel's with AMX, and the operating system lets this process use them. MultiplyTiles then has
// products of float32 on them, each operand split into three bfloat16 whose sum it is.
func HasTiles() bool { return simd.HasTiles() }

// TileProduct is a Product for MultiplyTiles. Its Dots mean nothing.
type TileProduct struct {
	Product
	// What PackLeft made of A, and PackRight of B, for a kernel that multiplies with the same
	// matrix again; nil: it is packed for this call. A and B are still needed.
	PackedA, PackedB *Tiles
	// Reused says that B is packed once for many calls, if there is memory for that: whether tiles pay
	// is decided as if it were packed, so that bits do not depend on the memory. Kept sets it.
	Reused bool
}

// Tiles is an operand that is split and packed for MultiplyTiles. Of float32 it takes 6 bytes
// an element, of bfloat16 2.
type Tiles struct{ tiles *simd.Tiles }

// PackLeft packs op(a), rows by k; trans tells that a is stored [k,rows]. It needs HasTiles.
func PackLeft(rows, k int, a Matrix, trans bool) *Tiles {
	return &Tiles{simd.PackLeft(rows, k, a.operand(), trans)}
}

// PackRight packs op(b), k by cols; trans tells that b is stored [cols,k]. It needs HasTiles.
func PackRight(k, cols int, b Matrix, trans bool) *Tiles {
	return &Tiles{simd.PackRight(k, cols, b.operand(), trans)}
}

// Bytes returns how much memory it takes.
func (t *Tiles) Bytes() int { return t.tiles.Bytes() }

// MultiplyTiles computes independent products together, as Multiply does, on tiles where there are any
// and that pays, which their sizes decide, and what is packed. Errors are those of Multiply, and
// bits others; they depend on the number of threads as little, but those of a row may depend on how many
// others there are. NaN, infinities and numbers of any size are computed as Multiply does.
func MultiplyTiles(products ...TileProduct) {
	list := make([]simd.TileProduct, len(products))
	for i := range products {
		list[i] = products[i].product()
	}
	simd.MultiplyTiles(list...)
}

// Multiplier computes products that do not depend on each other, all of which are overwritten or added to. A nil
// one is the fastest that this module has: MultiplyTiles, and Multiply for products of few rows. So a kernel
// that multiplies by one may be given the products of another library.
type Multiplier func(products ...Product)

// Run computes the products.
func (m Multiplier) Run(products ...Product) {
	switch {
	case m != nil:
		m(products...)
	case tilesTake(products):
		list := make([]simd.TileProduct, len(products))
		for i := range products {
			list[i] = simd.TileProduct{Product: products[i].product()}
		}
		simd.MultiplyTiles(list...)
	default:
		Multiply(products...)
	}
}

// tilesTake reports whether there are tiles, and rows for them.
func tilesTake(products []Product) bool {
	return HasTiles() && slices.ContainsFunc(products, func(p Product) bool { return p.M > FewRows })
}

// Pays reports whether tiles make a product faster that is computed by itself, where there are any.
func (p *TileProduct) Pays() bool {
	q := p.product()
	return q.Pays()
}

func (p *TileProduct) product() simd.TileProduct {
	q := simd.TileProduct{Product: p.Product.product(), Reused: p.Reused}
	if p.PackedA != nil {
		q.PackedA = p.PackedA.tiles
	}
	if p.PackedB != nil {
		q.PackedB = p.PackedB.tiles
	}
	return q
}
