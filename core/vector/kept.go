package vector

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/keep"
	"github.com/seed98097648/tune/internal/simd"
)

// Kept keeps right operands of products, packed, for as long as the weights that they are do not
// change. Its zero value is ready; as a kernel it is for one call at a time.
type Kept struct {
	tiles  keep.Store[keptUse, *Tiles]
	panels keep.Store[keptUse, *simd.Panels]
}

// keptUse is what an operand is packed for.
type keptUse struct {
	part, k, n int
	trans      bool
	rounded    bool
}

// Right gives a product the packed form of its right operand, of this call or of an earlier one. The
// operand is made of the inputs, all of them or a part, of which part is the number. A product that
// tiles do not make faster stays as it is where there are tiles, elsewhere one of few rows, and so does one whose inputs
// may change at any time or for which there is no room; see package keep. The bits are the same, kept or not.
func (t *Kept) Right(p *TileProduct, part int, inputs ...core.Tensor) {
	p.Reused = true
	if !HasTiles() {
		t.right(&p.Product, part, inputs...)
		return
	}
	if p.Pays() {
		pack := func() *Tiles { return PackRight(p.K, p.N, p.B, p.TransB) }
		p.PackedB, _ = t.tiles.Of(p.use(part), KeptBytes(p.K, p.N, p.B.element()), pack, inputs...)
	}
}

// right is Right where there are no tiles.
func (t *Kept) right(p *Product, part int, inputs ...core.Tensor) {
	if p.M <= FewRows {
		return
	}
	pack := func() *simd.Panels {
		return simd.PackPanels(p.K, p.N, p.B.operand(), p.TransB, largeRoom(simd.PanelsSize(p.K, p.N)))
	}
	p.panels, _ = t.panels.Of(p.use(part), KeptBytes(p.K, p.N, p.B.element()), pack, inputs...)
}

func (p *Product) use(part int) keptUse { return keptUse{part, p.K, p.N, p.TransB, p.B.Rounded} }

// Run computes products as m.Run does, those of weights that are not trained with what is kept of them: weights
// has for each of the first products the inputs that its right operand is made of, or none.
func (t *Kept) Run(m Multiplier, weights [][]core.Tensor, products ...Product) {
	if m != nil || len(weights) == 0 {
		m.Run(products...)
		return
	}
	if !tilesTake(products) {
		for i, from := range weights {
			if len(from) > 0 && !HasTiles() {
				t.right(&products[i], 0, from...)
			}
		}
		Multiply(products...)
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

// KeptBytes is about how much memory a right operand [k,n] takes that is kept, stored as elements of that type, which
// are widened unless they are bfloat16 and there are tiles.
func KeptBytes(k, n int, element core.DType) int64 {
	if !HasTiles() {
		return 4 * int64(simd.PanelsSize(k, n))
	}
	const lanes, float32s, bfloat16s = 32, 6, 2
	elems := int64(k+lanes-1) * int64(n+lanes-1)
	if element == core.BFloat16 {
		return elems * bfloat16s
	}
	return elems * float32s
}

// element is the type that the elements of a matrix are multiplied in: bfloat16, or any that is widened.
func (x Matrix) element() core.DType {
	if x.BFloat16 != nil || x.Rounded {
		return core.BFloat16
	}
	return core.Float32
}
