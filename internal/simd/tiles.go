package simd

import (
	"math"
	"slices"
)

// Some processors multiply matrices of bfloat16 in tiles, at many times the rate of their
// vectors. A float32 is exactly the sum of three bfloat16, rounded one after the other, so
// that six such products add up to one of float32: of the nine products of parts, these
// are the ones that are not below what a float32 keeps.
//
// The errors are those of the ordinary product: what is left out of a product of two
// elements is at most 2^-23 of it and of either sign, and sums are float32, rounded once or
// less for each step. The order of a sum is fixed by the sizes alone, so that bits
// depend on the number of threads as little as with Multiply. They differ from those that
// Multiply gives, and those of a row may depend on how many others there are.
//
// The units take no part in IEEE's rules: they take subnormal numbers for zero, and make
// zero of them. Blocks of 32 by 32 in which that, an infinity, a NaN or a number that large
// could matter are computed as Multiply does.

// HasTiles reports whether there are such units, and this process may use them.
func HasTiles() bool { return tiles() != nil }

// Instructions names all that results of this process may depend on: the variant, and amx if there are tiles.
func Instructions() string {
	if HasTiles() {
		return Variant() + "+amx"
	}
	return Variant()
}

// TileProduct is a Product for MultiplyTiles. Its Dots mean nothing.
type TileProduct struct {
	Product
	// What PackLeft made of A, and PackRight of B, for callers that multiply with the same
	// matrix again; nil: it is packed for this call. A and B are still needed.
	PackedA, PackedB *Tiles
	// Reused says that B is packed once for many calls, if there is memory for that: whether tiles pay
	// is decided as if it were packed, so that bits do not depend on the memory.
	Reused bool
}

// Tiles is an operand that is split and packed for MultiplyTiles. Of float32 it takes 6 bytes
// an element, of bfloat16 2.
type Tiles struct {
	right    bool
	lanes, k int
	blocks   []tilePack // for each step of the inner dimension
}

// PackLeft packs op(a), rows by k; trans tells that a is stored [k,rows].
func PackLeft(rows, k int, a Matrix, trans bool) *Tiles { return packTiles(rows, k, a, !trans, false) }

// PackRight packs op(b), k by cols; trans tells that b is stored [cols,k].
func PackRight(k, cols int, b Matrix, trans bool) *Tiles { return packTiles(cols, k, b, trans, true) }

func packTiles(lanes, k int, x Matrix, along, right bool) *Tiles {
	if tiles() == nil {
		panic("simd: there are no units for tiles to pack for")
	}
	if lanes < 0 || k < 0 {
		panic(negSize)
	}
	x.check(lanes, k, !along, shortB)
	t := &Tiles{right: right, lanes: lanes, k: k}
	step := tileStep(k)
	for k0 := 0; k0 < k && lanes > 0; k0 += step {
		b := packOf(x, along, right, 0, lanes, k0, min(step, k-k0))
		b.room(aligned(b.size()), make([]tileRange, b.panels()))
		t.blocks = append(t.blocks, b)
	}
	m := tileMultiplications.get()
	defer m.free()
	for i := range t.blocks {
		m.cutPack(&t.blocks[i])
	}
	m.run()
	for i := range t.blocks {
		t.blocks[i].x = Matrix{} // not to hold on to it
	}
	return t
}

// Bytes returns how much memory it takes.
func (t *Tiles) Bytes() int {
	n := 0
	for i := range t.blocks {
		n += 4 * len(t.blocks[i].data)
	}
	return n
}

// tileStep returns in what steps an inner dimension of k is added up.
func tileStep(k int) int {
	return ceilDiv(ceilDiv(max(k, 1), max(1, ceilDiv(k, tileK))), tileDepth) * tileDepth
}

// MultiplyTiles computes independent products together, as Multiply does, on tiles where there are any
// and that pays, which their sizes decide, and what is packed.
func MultiplyTiles(products ...TileProduct) {
	work := 0.0
	for i := range products {
		products[i].check()
		work += products[i].work()
	}
	m := tileMultiplications.get()
	defer m.free()
	for i := range products {
		p := &products[i]
		if m.unit != nil && p.pays(work) {
			m.products = append(m.products, *p)
			continue
		}
		q := p.Product
		q.Dots = false
		m.others = append(m.others, q)
	}
	if len(m.others) > 0 {
		Multiply(m.others...)
	}
	m.multiply()
}

// Pays reports whether tiles make a product faster that is computed by itself, where there are any.
func (p *TileProduct) Pays() bool { return p.pays(p.work()) }

// pays is Pays for one of several products, with so many multiplications in all. An element of an operand
// takes as long to pack as tiles spare in about a hundred multiplications, and goroutines wait for each
// other before they multiply. An operand that is packed, or in bfloat16, needs less of both.
func (p *TileProduct) pays(work float64) bool {
	little := p.PackedB != nil || p.Reused || p.A.parts() == 1 || p.B.parts() == 1
	return min(p.M, p.N, p.K) >= 128 && (little || work >= 1<<24)
}

func (p *TileProduct) check() {
	p.Product.check()
	for _, o := range []struct {
		packed *Tiles
		lanes  int
		right  bool
	}{{p.PackedA, p.M, false}, {p.PackedB, p.N, true}} {
		if t := o.packed; t != nil && (t.right != o.right || t.lanes != o.lanes || t.k != p.K) {
			panic("simd: an operand is packed for another product")
		}
	}
}

// tileRange says how small the elements of an operand are that are not zero, infinity if all are, and how
// large.
type tileRange struct{ least, most float32 }

// fits reports whether products of k elements in both ranges are as IEEE has them, within rounding: no
// sum can overflow, every part of an element is a normal number (the last bit of one is 2^-23 of
// it), and so is the product of any two elements, with 26 bits to spare for what tiles lose
// where a sum is below the normal numbers. Comparisons with NaN fail.
func (r tileRange) fits(s tileRange, k int) bool {
	least := min(r.least, s.least)
	return least >= 0x1p-102 && float64(r.least)*float64(s.least) >= 0x1p-100 &&
		r.most < 0x1p127 && s.most < 0x1p127 && float64(r.most)*float64(s.most)*float64(k) < 0x1p126
}

// rangeOf returns the range of elements of which splitAMX has kept the extremes.
func rangeOf(extremes *[32]uint32) tileRange {
	r := tileRange{float32(math.Inf(1)), math.Float32frombits(slices.Max(extremes[:tileRows]) >> 1)}
	if least := slices.Min(extremes[tileRows:]); least < math.MaxUint32 {
		r.least = math.Float32frombits((least + 1) >> 1)
	}
	return r
}
