package nn

import (
	"math"

	"github.com/seed98097648/tune/internal/simd"
)

// weigh turns the scores of a query of a head, which sees keys [first, end), into probabilities, and returns that of the
// head's sink, which has no value; without sinks it means nothing.
func (a attentionShape) weigh(row []float32, first, end, head int, sinks []float32) (sunk float32) {
	clear(row[:first])
	clear(row[end:])
	seen, scale := row[first:end], a.scale()
	if first == end {
		return 1
	}
	if a.cap > 0 {
		softCap(seen, seen, scale, a.cap)
		scale = 1
	}
	high, sink := scale*simd.Max(seen), float32(0)
	if sinks != nil {
		sink = sinks[head]
		high = max(high, sink)
	}
	sum := simd.ExpSum(seen, seen, scale, high)
	if sinks != nil {
		e := math.Exp(float64(sink) - float64(high))
		sum += e
		sunk = float32(e / sum)
	}
	simd.Scale(seen, seen, float32(1/sum))
	return sunk
}

// cappedSlopes multiplies the gradients of scores, ds, by the slopes of the cap: scores are what products gave, and are
// overwritten.
func (a attentionShape) cappedSlopes(ds, scores []float32) {
	softCap(scores, scores, a.scale(), a.cap)
	for i, s := range scores {
		t := float64(s) / a.cap
		ds[i] *= float32(1 - float64(t*t))
	}
}

// sinkGradients: with D the sum of a query's probabilities times their gradients, that of its head's sink is less
// what the sink has of the probability, times D.
func (a attentionShape) sinkGradients(dst, sunk, dots []float32) {
	for h := range dst {
		sum := 0.0
		for b := range a.b {
			from := (b*a.heads + h) * a.s
			for i := from; i < from+a.s; i++ {
				sum -= float64(sunk[i]) * float64(dots[i])
			}
		}
		dst[h] = float32(sum)
	}
}

// unlikeKernels says what attention has that its ops have not, "" for nothing.
func (cfg AttentionConfig) unlikeKernels() string {
	switch {
	case cfg.Cap > 0:
		return "its scores are capped, which no op of attention has"
	case cfg.Sinks:
		return "its heads have sinks, which no op of attention has"
	}
	return ""
}
