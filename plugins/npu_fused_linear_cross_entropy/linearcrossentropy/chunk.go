package linearcrossentropy

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// target is a token that has a label, and what is known of its logits.
type target struct {
	token, label int
	logit        float32   // of the label
	high         float32   // the largest
	sum          float64   // of exp(z - high)
	highs        []float32 // backward: high after each span
}

// loss is the logarithm of the sum of exp(z), less the logit of the label.
func (t *target) loss() float32 {
	return float32(math.Log(t.sum) + float64(t.high) - float64(t.logit))
}

const (
	// tileElems is how many logits are worked on at a time: 4 MiB, little beside a head's
	// weight, and enough for products at full speed.
	tileElems = 1 << 20
	minWidth  = 512  // of a tile, however many targets there are
	keptWidth = 2048 // of one whose weight may be kept packed,
	keptRows  = 128  // with at least so many targets

	rowGrain = 1 << 14 // elements below which another goroutine does not pay
)

// span is the part [lo, hi) of the vocabulary.
type span struct{ lo, hi int }

// spans cuts the vocabulary. The widths depend on the sizes alone, being part of the
// order in which sums are made. Where a weight may be kept packed, they are
// the same for all numbers of targets for which it is.
func spans(targets int, f core.Facts) []span {
	vocab, width := f.Vocab, max(tileElems/targets, minWidth)
	if f.Frozen && vector.HasTiles() && targets >= keptRows {
		width = keptWidth
	}
	var all []span
	for lo := 0; lo < vocab; lo += width {
		all = append(all, span{lo, min(lo+width, vocab)})
	}
	return all
}

// chunk is a few targets, whose products with the weight are made together.
type chunk struct {
	*core.Call
	targets []target
	x       []float32     // [targets, D]: their rows of x
	packed  *vector.Tiles // of x, for the products of all spans; nil where they pack it themselves
}

// gather makes a chunk of targets.
func (k *Kernel) gather(c *core.Call, targets []target) chunk {
	D := c.Facts.Dim
	x := vector.Grow(&k.x, len(targets)*D)
	for r, t := range targets {
		vector.Load(x[r*D:(r+1)*D], c.Input("x"), t.token*D)
	}
	all := chunk{Call: c, targets: targets, x: x}
	if k.Multiply == nil && c.Facts.Frozen && vector.HasTiles() && len(targets) >= keptRows {
		all.packed = vector.PackLeft(len(targets), D, vector.Matrix{Data: x, Stride: D}, false)
	}
	return all
}

// score writes the logits of a span to z [targets, width of the span].
func (k *Kernel) score(c chunk, s span, z []float32) {
	D := c.Facts.Dim
	k.multiply(c, s, vector.Product{M: len(c.targets), N: s.hi - s.lo, K: D, A: vector.Matrix{Data: c.x, Stride: D},
		B: c.weight(s), TransB: true, C: z, StrideC: s.hi - s.lo})
}

// multiply computes products, the first of which is that with the weight of a span. What is frozen is packed once
// for all calls, if there are units for tiles and memory allows. Without these, chunks of as many targets as rowsOf has
// take as long either way, and a large vocabulary a gigabyte less.
func (k *Kernel) multiply(c chunk, s span, products ...vector.Product) {
	if k.Multiply != nil || !c.Facts.Frozen || !vector.HasTiles() {
		k.Multiply.Run(products...)
		return
	}
	tiles := vector.TileProduct{Product: products[0]} // which is all, as the weight has no gradient
	if tiles.TransB {                                 // it is that of x
		tiles.PackedA = c.packed
	}
	k.kept.Right(&tiles, s.lo, c.Input("weight"))
	vector.MultiplyTiles(tiles)
}

// weight returns the rows of a span as an operand, widened while it is packed.
func (c chunk) weight(s span) vector.Matrix {
	D := c.Facts.Dim
	return vector.MatrixOf(c.Input("weight").Slice(s.lo*D, s.hi*D, s.hi-s.lo, D))
}

// eachRow calls f for every target and its row of z, the logits of a span. It notes the
// logit of the label on the way if it is among them.
func (c chunk) eachRow(s span, z []float32, f func(t *target, z []float32)) {
	width := s.hi - s.lo
	vector.Parallel(len(c.targets), rowGrain/width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			t, row := &c.targets[r], z[r*width:(r+1)*width]
			if s.lo <= t.label && t.label < s.hi {
				t.logit = row[t.label-s.lo]
			}
			f(t, row)
		}
	})
}
