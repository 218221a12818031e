package kerneltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	osmemory "github.com/seed98097648/tune/internal/os/memory"
)

// Oracle is the formula of an op, in float64 and as naive as can be: it returns the
// outputs of a forward pass, by name, those that are saved for backward included.
// Tensors are flat, in row-major order, the tensors of an argument with a Count one
// after the other; integers are given and returned as float64.
//
// An author writes it from the formula, so that a kernel is also compared with what its
// author takes the op to be, and not only with package reference.
type Oracle func(f core.Facts, in map[string][]float64) map[string][]float64

const (
	// oracleLimit is how far a float32 kernel may be from the oracle, relative to the
	// largest element: 64 roundings, as many as a sum of 64 terms may have. A mistake in a
	// formula is thousands of times that.
	oracleLimit = 64 * 0x1p-23
	// gradLimit is the same for GradCheck: well above what central differences get wrong
	// themselves, and above the rounding of a gradient that is float32 even when everything
	// else is float64.
	gradLimit = 1e-6
	// gradStep is the step of the central differences. Around values near 1 in float64 it
	// makes the error of the formula and that of the subtraction both about 1e-10.
	gradStep = 1e-5
	// gradNoise is what the subtraction of two losses of 1 loses, whatever the gradient.
	gradNoise = 4 * 0x1p-52 / gradStep
)

// CheckOracle compares k's outputs with the oracle's on the data of a case, and every
// gradient with central differences of the oracle, in every element: nobody has to
// derive a gradient a second time. It joins all violations, which wrap
// core.ErrWrongResult. Cases should have a few hundred input elements at most, sums of no
// more than 64 terms, and float32 storage.
func CheckOracle(ctx context.Context, k core.Kernel, o Oracle, c Case) error {
	forward, backward, err := Calls(ctx, k, c)
	if err != nil {
		return err
	}
	return compareWith(ctx, k, o, forward, backward, oracleLimit, 0)
}

// GradCheck compares the backward pass of a kernel that supports float64 storage with
// central differences of its own forward pass, in every element of every input that has
// a gradient. The loss is the sum of all outputs times random upstream gradients. The
// case's dtypes are replaced by float64. It is the check of a reference: it proves a
// gradient without knowing the formula, but cannot tell whether the forward is right.
func GradCheck(k core.Kernel, c Case) error {
	ctx := context.Background()
	c.Facts = stored(c.Op, c.Facts, core.Float64)
	forward, backward, err := Calls(ctx, k, c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	own := *forward
	own.Out = nil
	for _, x := range forward.Out {
		own.Out = append(own.Out, core.NewTensor(x.DType, x.Shape...))
	}
	var failed error
	furnishAll(&own)
	itself := func(_ core.Facts, in map[string][]float64) map[string][]float64 {
		at := 0
		for _, a := range own.Sig.In {
			v := in[a.Name]
			for range a.Count {
				x := own.In[at]
				if x.DType != core.Int32 {
					opdef.Store(x, v[:x.Elems()])
				}
				v, at = v[x.Elems():], at+1
			}
		}
		failed = cmp.Or(failed, core.Run(ctx, k, &own))
		return widened(own.Sig.Out, own.Out)
	}
	err = compareWith(ctx, k, itself, forward, backward, gradLimit, gradNoise)
	if err = cmp.Or(failed, err); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// compareWith compares a forward call that was made, and a backward call that is to be, with
// the oracle. The limit is relative to the largest element; noise, to the loss, is let pass.
func compareWith(ctx context.Context, k core.Kernel, o Oracle, forward, backward *core.Call,
	limit, noise float64) error {
	in := widened(forward.Sig.In, forward.In)
	want := o(forward.Facts, in)
	var violations []error
	check := func(pass core.Pass, name string, count int, got, want []float64, noise float64) {
		if err := near(count, got, want, limit, noise); err != nil {
			violations = append(violations, fmt.Errorf("%s %s: %w", pass, name, err))
		}
	}
	outputs := widened(forward.Sig.Out, forward.Out)
	for _, a := range forward.Sig.Out {
		check(core.Forward, a.Name, a.Count, outputs[a.Name], want[a.Name], 0)
	}
	if !k.Info().Backward {
		return errors.Join(violations...)
	}
	if err := core.Run(ctx, k, backward); err != nil {
		return err
	}
	upstream := widened(backward.Sig.In, backward.In)
	loss := func() float64 {
		sum := 0.0
		for name, y := range o(forward.Facts, in) {
			for i, d := range upstream["d"+name] {
				sum += y[i] * d
			}
		}
		return sum
	}
	noise *= math.Abs(loss())
	gradients := widened(backward.Sig.Out, backward.Out)
	for _, a := range backward.Sig.Out {
		if want[a.Name] != nil { // an output of forward, given once more
			check(core.Backward, a.Name, a.Count, gradients[a.Name], want[a.Name], 0)
			continue
		}
		for _, input := range []string{strings.TrimPrefix(a.Name, "d"), a.Also} {
			if input == "" {
				continue
			}
			name := a.Name
			if input == a.Also {
				name += " as the gradient of " + a.Also
			}
			step := stepOf(forward, input)
			check(core.Backward, name, a.Count, gradients[a.Name], slope(in[input], step, loss), noise)
		}
	}
	return errors.Join(violations...)
}

// RunOracle is CheckOracle with one subtest for each case. A case that k does not support
// is an error: what is compared with a formula is the author's choice.
func RunOracle(t *testing.T, k core.Kernel, o Oracle, cases []Case) {
	t.Helper()
	osmemory.Spend()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := CheckOracle(t.Context(), k, o, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// near compares an output, of so many tensors of one size, with the oracle's.
func near(count int, got, want []float64, limit, noise float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("it has %d elements, the oracle gives %d", len(got), len(want))
	}
	exact := core.NewTensor(core.Float64, len(want))
	copy(exact.Float64s(), want)
	had := core.NewTensor(core.Float64, len(got))
	copy(had.Float64s(), got)
	s := apart(had, exact, exact, count)
	if at := s.mismatchAt; s.mismatch {
		return fmt.Errorf("%w: element %d is %v, the oracle gives %v", core.ErrWrongResult, at, got[at], want[at])
	}
	for _, r := range s.rows {
		if r.diff > max(noise, limit*r.scale) {
			return fmt.Errorf("%w: error %.3g, limit %.3g, relative to the largest element; "+
				"worst at element %d: %v, the oracle gives %v",
				core.ErrWrongResult, r.diff/r.scale, limit, r.at, got[r.at], want[r.at])
		}
	}
	return nil
}

// slope returns the gradient of loss with respect to x, by central differences.
func slope(x []float64, step func(v, by float64) float64, loss func() float64) []float64 {
	grad := make([]float64, len(x))
	for i, v := range x {
		high, low := step(v, 1), step(v, -1)
		x[i] = high
		up := loss()
		x[i] = low
		grad[i] = (up - loss()) / (high - low)
		x[i] = v
	}
	return grad
}

// stepOf returns how an input is moved. One that is float32 where all else is float64, as
// routing weights are, in which the loss is linear, is moved so far that it can hold that.
func stepOf(c *core.Call, input string) func(v, by float64) float64 {
	for _, a := range c.Sig.In {
		if a.Name == input && a.DType == core.Float32 && c.Facts.DType == core.Float64 {
			return func(v, by float64) float64 { return float64(float32(v + by/64)) }
		}
	}
	return func(v, by float64) float64 { return v + by*gradStep }
}

// widened returns tensors by name, those of one argument joined.
func widened(args []core.Arg, tensors []core.Tensor) map[string][]float64 {
	all := map[string][]float64{}
	for _, a := range args {
		v := []float64{}
		for _, x := range tensors[:a.Count] {
			if x.DType != core.Int32 {
				v = append(v, values(x)...)
				continue
			}
			for _, n := range x.Int32s() {
				v = append(v, float64(n))
			}
		}
		all[a.Name], tensors = v, tensors[a.Count:]
	}
	return all
}
