package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// blur moves each element of the float32 outputs by up to half a unit of the largest, which
// a kernel may round otherwise than the reference does: some layers multiply such a difference,
// and no kernel can do anything about that. The reference on its own is no measure of it where
// it computes a part in float64, as it does the scores of attention.
func blur(c *core.Call, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(c.Pass)))
	for _, x := range c.Out {
		if x.DType != core.Float32 {
			continue
		}
		v, largest := x.Float32s(), 0.0
		for _, e := range v {
			if isFinite(float64(e)) {
				largest = max(largest, math.Abs(float64(e)))
			}
		}
		for i, e := range v {
			v[i] = float32(float64(e) + (rng.Float64()-0.5)*largest*epsilon(core.Float32))
		}
	}
}

// leans finds half precision that is not rounded to nearest: one such step is within what
// is allowed, but all are to the same side. The limit is the distance between two numbers
// of the storage type for all layers together; truncation leans by half of that in each.
func leans(f core.Facts, got, want, single core.Tensor) error {
	if f.DType == core.Float32 || got.DType != f.DType {
		return nil
	}
	reference, _ := lean(single, want)
	return upright(got, want, epsilon(f.DType)+spread*math.Abs(reference))
}

// truncates is leans for one call, where there are enough elements of about one size: truncation leans by a third of
// the distance between two numbers, and rounding to nearest by a fifth of that over the root of their number.
func truncates(f core.Facts, got, want core.Tensor) error {
	if _, number := lean(want, want); got.DType != f.DType || number < 200 {
		return nil
	}
	return upright(got, want, epsilon(f.DType)/8)
}

// lean is by how much of their size the elements of x are on one side of those of want, and of how many elements of
// one size they have the spread.
func lean(x, want core.Tensor) (by, number float64) {
	diff, sum, squares, w := 0.0, 0.0, 0.0, values(want)
	for i, v := range values(x) {
		diff += math.Copysign(1, w[i]) * (v - w[i])
		sum += math.Abs(w[i])
		squares += w[i] * w[i]
	}
	return diff / max(sum, math.SmallestNonzeroFloat64), sum * sum / max(squares, math.SmallestNonzeroFloat64)
}

// upright wants elements that lean by no more than most.
func upright(got, want core.Tensor, most float64) error {
	if by, _ := lean(got, want); !(math.Abs(by) <= most) {
		return fmt.Errorf("%w: all elements lean by %.3g of their size to one side, limit %.3g; "+
			"is storage rounded to nearest even?", core.ErrWrongResult, by, most)
	}
	return nil
}

// narrow brings weights near what they are to be around.
func narrow(around map[string]float64) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		for name, at := range around {
			for _, x := range in[name] {
				v := values(x)
				for i := range v {
					v[i] = at + (v[i]-at)/8
				}
				opdef.Store(x, v)
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
