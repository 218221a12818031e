package kerneltest

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// limitAfter is limit after so many layers. What limit allows in float32 beyond the
// reference's rounding, each layer may add on its own; such errors add up with the root
// of their number, and those that all lean to one side do so with the number itself.
func limitAfter(f core.Facts, rounding float64, height int) float64 {
	if f.DType == core.Float32 {
		return limit(f, rounding) + (math.Sqrt(float64(height))-1)*floor32*epsilon(core.Float32)
	}
	return limit(f, rounding)
}

// leans finds half precision that is not rounded to nearest: one such step is within what
// is allowed, but all are to the same side. The limit is the distance between two numbers
// of the storage type for all layers together; truncation leans by half of that in each.
func leans(f core.Facts, got, want, single core.Tensor) error {
	if f.DType == core.Float32 || got.DType != f.DType {
		return nil
	}
	lean := func(x core.Tensor) float64 {
		diff, sum, w := 0.0, 0.0, values(want)
		for i, v := range values(x) {
			diff += math.Copysign(1, w[i]) * (v - w[i])
			sum += math.Abs(w[i])
		}
		return diff / max(sum, math.SmallestNonzeroFloat64)
	}
	l, most := lean(got), epsilon(f.DType)+spread*math.Abs(lean(single))
	if !(math.Abs(l) <= most) {
		return fmt.Errorf("%w: all elements lean by %.3g of their size to one side, limit %.3g; is storage rounded to nearest even?", core.ErrWrongResult, l, most)
	}
	return nil
}

// narrow brings weights near what they are to be around.
func narrow(around map[string]float64) ops.Edit {
	return func(in map[string][]core.Tensor) {
		for name, at := range around {
			for _, x := range in[name] {
				v := values(x)
				for i := range v {
					v[i] = at + (v[i]-at)/8
				}
				ops.Put(x, v, 1)
			}
		}
	}
}

// powerOfTwo returns the factor that brings the root mean square of v near 1.
func powerOfTwo(v []float64) float64 {
	sum := 0.0
	for _, e := range v {
		sum += e * e
	}
	rms := math.Sqrt(sum / float64(max(len(v), 1)))
	if rms == 0 || !isFinite(rms) {
		return 1
	}
	return math.Exp2(-math.Round(math.Log2(rms)))
}
