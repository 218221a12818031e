package trainer

import (
	"math"
	"sync"

	"github.com/seed98097648/tune/internal/simd"
)

// head is what its layer is called in files that have a weight for it.
const head = "lm_head"

// span is the range of an activation, and how large its numbers are.
type span struct {
	low, high       float32
	squares, values float64
	head            bool // of the head, which gets a scale for each token in any case
	tied            bool // it is the embedding, which stays beside it
}

// coarsest is the noise of static scaling, as a share of an activation's mean square, from which on a layer gets a scale for
// each token instead: a few numbers are so large that little of int8 is left for all others.
// docs/quantization.md has what was measured.
const coarsest = 1.0 / 256

// static reports whether one scale does. Rounding errs evenly between two of its multiples.
func (s *span) static() bool {
	if s.head {
		return false
	}
	scale, _ := s.scale()
	return float64(scale)*float64(scale)/12 <= coarsest*s.squares/s.values || s.squares == 0
}

// take widens the span to the numbers of x.
func (s *span) take(x []float32) {
	var found sync.Mutex
	simd.Parallel(len(x), 1<<14, func(lo, hi int) {
		low, high, squares := float32(0), float32(0), 0.0
		for _, v := range x[lo:hi] {
			low, high = min(low, v), max(high, v)
			squares += float64(v) * float64(v)
		}
		found.Lock()
		defer found.Unlock()
		s.squares, s.values = s.squares+squares, s.values+float64(hi-lo)
		s.low, s.high = min(s.low, low), max(s.high, high)
	})
}

// scale returns the scale and the offset with which int8 holds the span, 0 among its numbers.
func (s *span) scale() (scale float32, offset int8) {
	if scale = (s.high - s.low) / 255; scale == 0 || scale-scale != 0 {
		return 1, 0
	}
	return scale, int8(min(max(math.RoundToEven(-128-float64(s.low/scale)), -128), 127))
}
