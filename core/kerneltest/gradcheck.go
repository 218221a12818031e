package kerneltest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/seed98097648/tune/core"
)

// gradStep is the step of the central differences. Around values near 1 in float64 it
// makes the error of the formula and that of the subtraction both about 1e-10.
const gradStep = 1e-5

// gradLimit is the largest distance from the differences to accept: well above what
// they get wrong themselves, and above the rounding of a gradient that is float32 even
// when everything else is float64.
const gradLimit = 1e-6

// GradCheck compares the backward pass of a kernel that supports float64 storage with
// central differences of its own forward pass, in every element of every input that has
// a gradient. The loss is the sum of all outputs times random upstream gradients. The
// case's dtypes are replaced by float64. It is the check of a reference: it proves a
// gradient without knowing the formula, but cannot tell whether the forward is right.
func GradCheck(k core.Kernel, c Case) error {
	ctx := context.Background()
	c.Facts.DType = core.Float64
	if c.Facts.WeightDType != core.InvalidDType {
		c.Facts.WeightDType = core.Float64
	}
	in, err := newInputs(c, &memory{Memory: heap{}}, false)
	if err != nil {
		return err
	}
	loss := func() (float64, error) {
		fwd, err := in.reference(ctx, k, core.Forward)
		if err != nil {
			return 0, err
		}
		return weighted(fwd, in.byName), nil
	}
	fwd, err := in.reference(ctx, k, core.Forward)
	if err != nil {
		return err
	}
	if err := in.save(fwd); err != nil {
		return err
	}
	bwd, err := in.reference(ctx, k, core.Backward)
	if err != nil {
		return err
	}
	// The subtraction of two losses loses this much, whatever the gradient.
	noise := 4 * 0x1p-52 * math.Abs(weighted(fwd, in.byName)) / gradStep
	for _, a := range bwd.Sig.Out {
		if in.byName["d"+a.Name] != nil {
			continue // an output of forward, given once more
		}
		for i, got := range bwd.Outputs(a.Name) {
			want, err := differences(in.byName[strings.TrimPrefix(a.Name, "d")][i], loss)
			if err != nil {
				return err
			}
			g := values(got)
			var d distance
			if d.add(g, want); !d.mismatch && (d.diff <= noise || d.relative() <= gradLimit) {
				continue
			}
			return fmt.Errorf("%s: %s[%d]: %w: error %.3g, limit %.3g; worst at %v: %v, differences give %v",
				c.Name, a.Name, i, core.ErrWrongResult, d.relative(), gradLimit, index(got.Shape, d.at), g[d.at], want[d.at])
		}
	}
	return nil
}

// weighted returns the sum of a forward call's outputs times their upstream gradients.
func weighted(fwd *core.Call, in map[string][]core.Tensor) float64 {
	sum := 0.0
	for _, a := range fwd.Sig.Out {
		if a.Saved || a.DType == core.Int32 {
			continue
		}
		upstream := values(in["d"+a.Name][0])
		for i, y := range values(fwd.Output(a.Name)) {
			sum += y * upstream[i]
		}
	}
	return sum
}

// differences returns the gradient of loss with respect to x, whose elements it moves
// one by one. It divides by the step that the storage type really made.
func differences(x core.Tensor, loss func() (float64, error)) ([]float64, error) {
	grad := values(x)
	for i, v := range grad {
		step := gradStep
		if x.DType == core.Float32 { // of routing weights, in which the loss is linear
			step = 1.0 / 64
		}
		high := set(x, i, v+step)
		up, err := loss()
		if err != nil {
			return nil, err
		}
		low := set(x, i, v-step)
		down, err := loss()
		if err != nil {
			return nil, err
		}
		set(x, i, v)
		grad[i] = (up - down) / (high - low)
		if math.IsNaN(grad[i]) {
			return nil, fmt.Errorf("kerneltest: differences at element %d are not a number", i)
		}
	}
	return grad, nil
}

// set stores v and returns what is then read back.
func set(x core.Tensor, i int, v float64) float64 {
	if x.DType == core.Float64 {
		x.Float64s()[i] = v
		return v
	}
	x.Float32s()[i] = float32(v)
	return float64(float32(v))
}
