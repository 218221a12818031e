package kerneltest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
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
	// flipped is the share of elements of a norm that may fall to the other side.
	flipped = 1.0 / 16
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

// compare checks one output against the reference in float64 and in float32.
func compare(f core.Facts, name string, got, want, single core.Tensor) error {
	g, w, s := values(got), values(want), values(single)
	if at := differentKind(g, w); at >= 0 {
		return fmt.Errorf("%s: %w: %v is %v, want %v", name, core.ErrWrongResult, index(got.Shape, at), g[at], w[at])
	}
	rounding, _ := distance(s, w)
	d, at := distance(g, w)
	if max := limit(f, rounding); !(d <= max) {
		return fmt.Errorf("%s: %w: error %.3g, limit %.3g, relative to the largest element; worst at %v: %v, want %v",
			name, core.ErrWrongResult, d, max, index(got.Shape, at), g[at], w[at])
	}
	if name == "y" && f.Cast != "" && f.DType != core.Float32 {
		return compareRounding(name, got, want)
	}
	return nil
}

// compareRounding finds a norm that rounds at another place than its cast order says.
// That moves many elements by one unit each, which is too little for distance.
func compareRounding(name string, got, want core.Tensor) error {
	n, size := 0, got.DType.Size()
	for i := 0; i < len(got.Data); i += size {
		if !bytes.Equal(got.Data[i:i+size], want.Data[i:i+size]) {
			n++
		}
	}
	if max := 2 + int(flipped*float64(got.Elems())); n > max {
		return fmt.Errorf("%s: %w: %d of %d elements are rounded differently, limit %d; is the cast order right?",
			name, core.ErrWrongResult, n, got.Elems(), max)
	}
	return nil
}

// distance returns max|a-b| / max|b| over the elements that are finite in both, and
// where it is reached.
func distance(a, b []float64) (d float64, at int) {
	var diff, scale float64
	for i, v := range b {
		if isFinite(v) && isFinite(a[i]) {
			scale = max(scale, math.Abs(v))
			if e := math.Abs(a[i] - v); e > diff {
				diff, at = e, i
			}
		}
	}
	if diff == 0 {
		return 0, at
	}
	return diff / scale, at
}

// differentKind returns the first place where one is finite and the other not, or both
// are not finite in different ways; -1 if there is none.
func differentKind(a, b []float64) int {
	for i := range a {
		if isFinite(a[i]) && isFinite(b[i]) || a[i] == b[i] || a[i] != a[i] && b[i] != b[i] {
			continue
		}
		return i
	}
	return -1
}

func isFinite(v float64) bool { return v-v == 0 }

// values widens a floating-point tensor.
func values(t core.Tensor) []float64 {
	out := make([]float64, t.Elems())
	if t.DType == core.Float64 {
		copy(out, t.Float64s())
		return out
	}
	single := make([]float32, len(out))
	t.Load(single, 0)
	for i, v := range single {
		out[i] = float64(v)
	}
	return out
}

// index returns the position of element i on each axis.
func index(s core.Shape, i int) []int {
	at := make([]int, len(s))
	for axis := len(s) - 1; axis >= 0; axis-- {
		at[axis] = i % s[axis]
		i /= s[axis]
	}
	return at
}
