package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// How far a kernel may be from the reference.
const (
	// spread multiplies the distance between the reference in float32 and in float64: a
	// kernel adds in another order, so it may be that much less lucky than the plain sum.
	spread = 4
	// floor32 is what is allowed in float32 even where the reference happens to be
	// exact, in units of 2^-23: an exponential and a few products, each well rounded.
	floor32 = 4
	// floorHalf is the same in half precision, in units of the storage type: a value on
	// the border between two of its numbers may fall to either side, twice when the op
	// itself rounds in between.
	floorHalf = 2
	// flipped is the share of elements in half precision that may fall to the other side.
	flipped = 1.0 / 16
	// large is the share of the largest element of its row from which on one counts for that.
	large = 1.0 / 8
	// fewDigits is the share of float32 numbers that may have no more digits than half
	// precision has; of numbers as they come, one in 2^13 has.
	fewDigits = 1.0 / 64
	// grain is by how many of its smallest numbers a storage type may be off where it
	// has fewer digits than elsewhere: a rotation rounds three times.
	grain = 4
	// ignorance is the rounding of the reference in float32 from which on it says nothing
	// about other rows.
	ignorance = 1.0 / 64
	// hidden is by how much the terms of a sum exceed it where a message says that they cancel.
	hidden = 64
)

// epsilon is the distance from 1 to the next number of a storage type.
func epsilon(d core.DType) float64 {
	switch d {
	case core.BFloat16:
		return 0x1p-7
	case core.Float16:
		return 0x1p-10
	}
	return 0x1p-23
}

// limit returns the largest distance to accept, given the reference's own rounding. It
// goes by the storage of activations even for a float32 gradient, which is computed
// from them.
func limit(f core.Facts, rounding float64) float64 {
	if f.DType == core.BFloat16 || f.DType == core.Float16 {
		return spread*rounding + floorHalf*epsilon(f.DType)
	}
	return spread*rounding + floor32*epsilon(core.Float32)
}

// sameIndices checks an output of indices, which is right or wrong.
func sameIndices(got, want core.Tensor) error {
	for i, w := range want.Int32s() {
		if g := got.Int32s()[i]; g != w {
			return fmt.Errorf("%w: %v: %d, want %d", core.ErrWrongResult, index(got.Shape, i), g, w)
		}
	}
	return nil
}

// sameCopies checks an output in which something is stored, and the rest left as it is.
func sameCopies(got, want core.Tensor) error {
	if bytes.Equal(got.Data, want.Data) {
		return nil
	}
	for i, size := 0, want.DType.Size(); i < want.Elems(); i++ {
		if !bytes.Equal(got.Data[i*size:][:size], want.Data[i*size:][:size]) {
			return fmt.Errorf("%w: %v: %v, want %v, to the bit", core.ErrWrongResult, index(got.Shape, i),
				values(got.Slice(i, i+1, 1))[0], values(want.Slice(i, i+1, 1))[0])
		}
	}
	return nil
}

// compareRounding finds results that are rounded at another place than the op says: a norm in another cast order, or
// sums in half precision on the way. That moves many elements by one unit each, which is too little for distance.
// Where the reference in float32 rounds as that in float64, nearly all do. Elements that are small in their row, or
// beside their terms unless these are nil, may be what is left of terms that cancel.
func compareRounding(got, want, single core.Tensor, rows int, terms []float64) error {
	w, bits, g, s := values(want), want.Uint16s(), got.Uint16s(), single.Uint16s()
	n, number, size := 0, 0, max(1, len(w)/max(1, rows))
	for row := range slices.Chunk(w, size) {
		largest := 0.0
		for _, v := range row {
			if a := math.Abs(v); a > largest && isFinite(v) {
				largest = a
			}
		}
		for i, v := range row {
			least := large * largest
			if len(terms) > 0 {
				least, terms = max(least, large*terms[0]), terms[1:]
			}
			// Numbers other than zero are the same if their bits are.
			if bits[i] == s[i] && v != 0 && isFinite(v) && math.Abs(v) >= least {
				if number++; bits[i] != g[i] {
					n++
				}
			}
		}
		bits, g, s = bits[len(row):], g[len(row):], s[len(row):]
	}
	if most := 2 + int(flipped*float64(number)); n > most {
		return fmt.Errorf("%w: %d of %d elements are rounded differently, limit %d; is the cast order right, and nothing "+
			"on the way in half precision?", core.ErrWrongResult, n, number, most)
	}
	return nil
}

// compareDigits finds a float32 output of which many elements have no more digits than
// half precision. Where activations are stored in that, the limit would let it pass.
func compareDigits(got, want, single core.Tensor) error {
	n, w, v := 0, want.Float32s(), single.Float32s()
	for i, g := range got.Float32s() {
		if isCoarse(g) && !isCoarse(w[i]) && !isCoarse(v[i]) {
			n++
		}
	}
	if most := 2 + int(fewDigits*float64(got.Elems())); n > most {
		return fmt.Errorf("%w: %d of %d elements have the digits of half precision only, limit %d; "+
			"a float32 output is not rounded to less",
			core.ErrWrongResult, n, got.Elems(), most)
	}
	return nil
}

// isCoarse reports whether a number has 10 bits after the first or fewer, and may so have
// been rounded to half precision. The bits of a NaN mean nothing.
func isCoarse(v float32) bool { return v == v && math.Float32bits(v)&(1<<13-1) == 0 }

// relative is diff/scale. Without a scale, nothing is known but that there is a difference.
func relative(diff, scale float64) float64 {
	if diff == 0 || scale == 0 {
		return 0
	}
	return diff / scale
}

// forChunks calls f with consecutive pieces of tensors of one shape, and the number of their first element. They are
// widened where the ones before were, so that large tensors need no memory.
func forChunks(f func(from int, v [][]float64), tensors ...core.Tensor) {
	const chunk = 1 << 10
	n := tensors[0].Elems()
	room := make([]float64, len(tensors)*min(n, chunk))
	v := make([][]float64, len(tensors))
	for from := 0; from < n; from += chunk {
		size := min(chunk, n-from)
		for i, t := range tensors {
			v[i] = room[i*size:][:size]
			opdef.Widen(v[i], t, from)
		}
		f(from, v)
	}
}

func isFinite(v float64) bool { return v-v == 0 }

func values(t core.Tensor) []float64 { return opdef.Values[float64](t) }

// index returns the position of element i on each axis.
func index(s core.Shape, i int) []int {
	at := make([]int, len(s))
	for axis := len(s) - 1; axis >= 0; axis-- {
		at[axis] = i % s[axis]
		i /= s[axis]
	}
	return at
}
