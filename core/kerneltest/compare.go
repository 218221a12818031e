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

// compare checks one output against the reference in float64 and in float32. It returns
// the error as a share of what is allowed.
func compare(f core.Facts, name string, got, want, single core.Tensor) (share float64, err error) {
	sep := apart(got, want, single)
	share, err = sep.judge(limit(f, sep.rounding.relative()))
	if err == nil && name == "y" && f.Cast != "" && f.DType != core.Float32 {
		err = compareRounding(got, want)
	}
	return share, err
}

// separation is how far an output, and the reference in float32, are from the reference
// in float64.
type separation struct {
	got, want   core.Tensor
	d, rounding distance
}

func apart(got, want, single core.Tensor) separation {
	s := separation{got: got, want: want}
	forChunks(func(v ...[]float64) {
		s.d.add(v[0], v[1])
		s.rounding.add(v[2], v[1])
	}, got, want, single)
	return s
}

// judge returns the error as a share of what is allowed, and says where it is too large.
func (s separation) judge(limit float64) (share float64, err error) {
	show := func(i int) string {
		return fmt.Sprintf("%v: %v, want %v", index(s.got.Shape, i), values(s.got.Slice(i, i+1, 1))[0], values(s.want.Slice(i, i+1, 1))[0])
	}
	if s.d.mismatch {
		return 0, fmt.Errorf("%w: not finite in the same places; %s", core.ErrWrongResult, show(s.d.mismatchAt))
	}
	share = min(s.d.relative()/limit, 1e9) // finite, whatever the scale
	if !(s.d.relative() <= limit) {
		err = fmt.Errorf("%w: error %.3g, limit %.3g, relative to the largest element; worst at %s",
			core.ErrWrongResult, s.d.relative(), limit, show(s.d.at))
	}
	return share, err
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

// compareRounding finds a norm that rounds at another place than its cast order says.
// That moves many elements by one unit each, which is too little for distance.
func compareRounding(got, want core.Tensor) error {
	n, size := 0, got.DType.Size()
	for i := 0; i < len(got.Data); i += size {
		if !bytes.Equal(got.Data[i:i+size], want.Data[i:i+size]) {
			n++
		}
	}
	if max := 2 + int(flipped*float64(got.Elems())); n > max {
		return fmt.Errorf("%w: %d of %d elements are rounded differently, limit %d; is the cast order right?",
			core.ErrWrongResult, n, got.Elems(), max)
	}
	return nil
}

// distance measures max|a-b| and max|b| over the elements that are finite in both.
type distance struct {
	diff, scale float64
	at          int // where diff is reached
	mismatch    bool
	mismatchAt  int // the first place where the two are not finite in the same way
	n           int // elements seen
}

func (d *distance) add(a, b []float64) {
	for i, v := range b {
		switch {
		case isFinite(v) && isFinite(a[i]):
			d.scale = max(d.scale, math.Abs(v))
			if e := math.Abs(a[i] - v); e > d.diff {
				d.diff, d.at = e, d.n+i
			}
		case a[i] == v || a[i] != a[i] && v != v:
		case !d.mismatch:
			d.mismatch, d.mismatchAt = true, d.n+i
		}
	}
	d.n += len(b)
}

func (d *distance) relative() float64 {
	if d.diff == 0 {
		return 0
	}
	return d.diff / d.scale
}

// forChunks calls f with consecutive pieces of tensors of one shape, so that large ones
// need not be widened whole.
func forChunks(f func(v ...[]float64), tensors ...core.Tensor) {
	const chunk = 1 << 13
	n := tensors[0].Elems()
	v := make([][]float64, len(tensors))
	for from := 0; from < n; from += chunk {
		to := min(from+chunk, n)
		for i, t := range tensors {
			v[i] = values(t.Slice(from, to, to-from))
		}
		f(v...)
	}
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
