package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/keep"
)

// KeptTiles keeps right operands of products, packed, for as long as the weights that they are do not
// change. Its zero value is ready; as a kernel it is for one call at a time.
type KeptTiles struct {
	store keep.Store[tilesUse, *Tiles]
}

// tilesUse is what an operand is packed for.
type tilesUse struct {
	part, k, n int
	trans      bool
	rounded    bool
}

// Right gives a product the packed form of its right operand, of this call or of an earlier one. The
// operand is made of the inputs, all of them or a part, of which part is the number. A product that
// tiles do not make faster stays as it is, and so does one whose inputs may change at any time or for
// which there is no room; see package keep. The bits are the same, kept or not.
func (t *KeptTiles) Right(p *TileProduct, part int, inputs ...core.Tensor) {
	p.Reused = true
	if !HasTiles() || !p.Pays() {
		return
	}
	use := tilesUse{part, p.K, p.N, p.TransB, p.B.Rounded}
	pack := func() *Tiles { return PackRight(p.K, p.N, p.B, p.TransB) }
	p.PackedB, _ = t.store.Of(use, tilesBytes(p.K, p.N, p.B), pack, inputs...)
}

// Run computes products as m.Run does, those of weights that are not trained with what is kept of them: weights
// has for each of the first products the inputs that its right operand is made of, or none.
func (t *KeptTiles) Run(m Multiplier, weights [][]core.Tensor, products ...Product) {
	if m != nil || len(weights) == 0 || !tilesTake(products) {
		m.Run(products...)
		return
	}
	list := make([]TileProduct, len(products))
	for i, p := range products {
		list[i].Product = p
		if i < len(weights) && len(weights[i]) > 0 {
			t.Right(&list[i], 0, weights[i]...)
		}
	}
	MultiplyTiles(list...)
}

// tilesBytes is about how much memory a packed operand takes.
func tilesBytes(k, n int, b Matrix) int64 {
	const lanes, float32s, bfloat16s = 32, 6, 2
	elems := int64(k+lanes-1) * int64(n+lanes-1)
	if b.BFloat16 != nil || b.Rounded {
		return elems * bfloat16s
	}
	return elems * float32s
}
