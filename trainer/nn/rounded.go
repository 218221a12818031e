package nn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Round has the linear layers of a model and their adapters round the factors of their products to a type, or none
// for InvalidDType, which is how a model begins; see core.Facts.Products. Routers, experts and attention stay as they
// are: a small difference in a router sends a token elsewhere.
func (b *Body) Round(products core.DType) error {
	for _, l := range b.layers {
		if l.facts.Products == products {
			continue
		}
		at := siteOf(b.sites, l.site)
		sites := []*core.Site{at}
		for _, larger := range b.around(l.site) {
			sites = append(sites, siteOf(b.sites, larger))
		}
		for _, s := range sites {
			if b.use.graphs > 0 || s.Hook.Kernel() != nil {
				return errors.New("nn: the precision of products comes before kernels and programs")
			}
			round(s, products)
		}
		b.use.swaps++
	}
	return nil
}

// othersRound begins the reason why a site stays plain whose op has no such fact: the layers within it round.
const othersRound = "its products are in "

// round gives a site the fact, or leaves what it does to the layers within it.
func round(s *core.Site, products core.DType) {
	if strings.HasPrefix(s.Plain, othersRound) {
		s.Plain = ""
	}
	own := s.Hook.(*site)
	facts := own.facts
	if facts.Products = products; facts.Validate(s.Op) == nil {
		own.facts, s.Facts = facts, facts
	} else if s.Plain == "" {
		s.Plain = fmt.Sprintf("%s%s, which %s has not", othersRound, products, s.Op)
	}
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
