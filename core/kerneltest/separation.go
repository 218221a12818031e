package kerneltest

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// separation is how far an output, and the reference in float32, are from the reference
// in float64, in each row of the tensor: one for each token, or all of it.
type separation struct {
	got, want  core.Tensor
	rows       []row
	mismatch   bool
	mismatchAt int  // the first place where got and want are not finite in the same way
	overflow   bool // the reference in float32 is not, somewhere
}

// row is what there is to know about a row. All but at are absolute.
type row struct {
	diff, rounding float64 // of the kernel, and of the reference in float32
	scale          float64 // the largest element, or the size of its terms
	cancel         bool    // the terms are much larger than what is left of them
	at             int     // where diff is reached
}

// apart compares an output with the references. Elements are not looked at where float32
// arithmetic overflows, as the reference in it shows.
func apart(got, want, single core.Tensor, rows int) separation {
	s := separation{got: got, want: want, rows: make([]row, max(rows, 1))}
	size := max(1, got.Elems()/len(s.rows))
	forChunks(func(n int, v [][]float64) {
		for g, w, x := v[0], v[1], v[2]; len(g) > 0; {
			at := min(n/size, len(s.rows)-1)
			m := len(g) // elements of this row
			if at < len(s.rows)-1 {
				m = min(m, (at+1)*size-n)
			}
			s.add(&s.rows[at], n, g[:m], w[:m], x[:m])
			g, w, x, n = g[m:], w[m:], x[m:], n+m
		}
	}, got, want, single)
	return s
}

// add looks at elements of a row, the first of which is element n of the tensor.
func (s *separation) add(r *row, n int, got, want, single []float64) {
	for i, w := range want {
		g, x := got[i], single[i]
		switch {
		case isFinite(g + w + x): // not if one of them is not
			r.add(n+i, g, w, x)
		case isFinite(w) && isFinite(g) && isFinite(x):
			r.add(n+i, g, w, x)
		case isFinite(w) && !isFinite(x):
			s.overflow = true
		case g == w || g != g && w != w:
		case !s.mismatch:
			s.mismatch, s.mismatchAt = true, n+i
		}
	}
}

// add looks at finite numbers, of which max and min would ask whether they are.
func (r *row) add(at int, got, want, single float64) {
	if v := math.Abs(want); v > r.scale {
		r.scale = v
	}
	if v := math.Abs(single - want); v > r.rounding {
		r.rounding = v
	}
	if v := math.Abs(got - want); v > r.diff {
		r.diff, r.at = v, at
	}
}

// nearer returns an output with each element as much nearer to what is wanted as it may have moved.
func nearer(got, want core.Tensor, moved []float64) core.Tensor {
	near := core.NewTensor(core.Float64, got.Shape...)
	g, w := values(got), values(want)
	for i, m := range moved {
		near.Float64s()[i] = g[i]
		if isFinite(g[i]) && isFinite(w[i]) {
			near.Float64s()[i] = w[i] + math.Copysign(max(0, math.Abs(g[i]-w[i])-m), g[i]-w[i])
		}
	}
	return near
}

// measure makes the scale of each row at least the size of the terms that its elements
// are the sums of: rounding one of these changes the sum by so much, however small it is.
func (s *separation) measure(terms []float64) {
	size := max(1, len(terms)/len(s.rows))
	for i, v := range terms {
		if r := &s.rows[min(i/size, len(s.rows)-1)]; isFinite(v) && v > r.scale {
			r.cancel = r.cancel || v > hidden*r.scale
			r.scale = v
		}
	}
}

// rounding is how far the reference in float32 is off, relative to the scale of its row,
// where that is most. A row of which it knows nothing excuses itself only.
func (s *separation) rounding() float64 {
	most := 0.0
	for _, r := range s.rows {
		if own := relative(r.rounding, r.scale); len(s.rows) == 1 || own < ignorance {
			most = max(most, own)
		}
	}
	return most
}

// judge returns the error as a share of what is allowed, and says where it is too large.
func (s *separation) judge(limit float64) (share float64, err error) {
	if s.mismatch {
		return 0, fmt.Errorf("%w: not finite in the same places; %s", core.ErrWrongResult, s.show(s.mismatchAt))
	}
	worst, tiny := row{}, grain*opdef.Smallest(s.got.DType)
	for _, r := range s.rows {
		limit := max(limit, spread*relative(r.rounding, r.scale))
		if e := min(r.diff/(limit*r.scale+tiny), 1e9); e > share || e != e { // finite, whatever the scale
			share, worst = e, r
		}
	}
	if !(share <= 1) {
		limit = max(limit, spread*relative(worst.rounding, worst.scale))
		far := worst.diff / max(worst.scale, math.SmallestNonzeroFloat64)
		err = fmt.Errorf("%w: error %.3g, limit %.3g, relative to %s; worst at %s%s",
			core.ErrWrongResult, far, limit, s.of(worst), s.show(worst.at), s.advice(worst, far))
	}
	return share, err
}

// of says what the scale of a row is.
func (s *separation) of(r row) string {
	switch {
	case r.cancel:
		return fmt.Sprintf("the size of its terms, %.3g, which cancel", r.scale)
	case len(s.rows) > 1:
		return fmt.Sprintf("the largest element of its token, %.3g", r.scale)
	}
	return fmt.Sprintf("the largest element, %.3g", r.scale)
}

// advice says what an author can look for, by how large the error is.
func (s *separation) advice(r row, far float64) string {
	switch {
	case far > 0x1p-6:
		return "" // no rounding; the element and the case say where to look
	case far > 0x1p-13:
		return "; that is as much as half precision rounds: is something stored in it on the way?"
	case r.cancel:
		return "; keep the terms in float32 or better until they are added"
	}
	return "; that is rounding: add up in float32 or better, long sums in parts"
}

func (s *separation) show(i int) string {
	return fmt.Sprintf("%v: %v, want %v",
		index(s.got.Shape, i), values(s.got.Slice(i, i+1, 1))[0], values(s.want.Slice(i, i+1, 1))[0])
}
