package nn

import (
	"errors"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Round has the linear layers within the blocks of a model, and their adapters, round the factors of their
// products to a type, or none for InvalidDType, which is how a model begins; see core.Facts.Products. Routers, the
// head, experts and attention stay as they are: a small difference in a router sends a token elsewhere.
func (b *Body) Round(products core.DType) error {
	for _, l := range b.layers {
		if l.facts.Products == products {
			continue
		}
		if b.use.graphs > 0 || l.kernel != nil {
			return errors.New("nn: the precision of products comes before kernels and programs")
		}
		l.facts.Products = products
		siteOf(b.sites, l.site).Facts = l.facts
		b.use.swaps++
	}
	return nil
}

// matmul computes products that do not depend on each other, whose factors are rounded first, unless to
// nothing: on tiles, where there are any and that pays.
func matmul(rounded core.DType, products ...simd.Product) {
	if rounded == core.InvalidDType {
		simd.Multiply(products...)
		return
	}
	tiles := make([]simd.TileProduct, len(products))
	for i, p := range products {
		p.A.Rounded, p.B.Rounded = true, true
		tiles[i].Product = p
	}
	simd.MultiplyTiles(tiles...)
}
