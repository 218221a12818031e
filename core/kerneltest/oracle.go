package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// Oracle is the formula of an op, in float64 and as naive as can be: it returns the
// outputs of a forward pass, by name, those that are saved for backward included.
// Tensors are flat, in row-major order, the tensors of an argument with a Count one
// after the other; integers are given and returned as float64.
//
// An author writes it from the formula, so that a kernel is also compared with what its
// author takes the op to be, and not only with package reference.
type Oracle func(f core.Facts, in map[string][]float64) map[string][]float64

// oracleLimit is how far a float32 kernel may be from the oracle, relative to the
// largest element: 64 roundings, as many as a sum of 64 terms may have. A mistake in a
// formula is thousands of times that.
const oracleLimit = 64 * 0x1p-23

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
	in := widened(forward.Sig.In, forward.In)
	want := o(c.Facts, in)
	var violations []error
	check := func(pass core.Pass, name string, got, want []float64) {
		if err := near(got, want); err != nil {
			violations = append(violations, fmt.Errorf("%s %s: %w", pass, name, err))
		}
	}
	outputs := widened(forward.Sig.Out, forward.Out)
	for _, a := range forward.Sig.Out {
		check(core.Forward, a.Name, outputs[a.Name], want[a.Name])
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
		for name, y := range o(c.Facts, in) {
			for i, d := range upstream["d"+name] {
				sum += y[i] * d
			}
		}
		return sum
	}
	gradients := widened(backward.Sig.Out, backward.Out)
	for _, a := range backward.Sig.Out {
		if want[a.Name] != nil { // an output of forward, given once more
			check(core.Backward, a.Name, gradients[a.Name], want[a.Name])
			continue
		}
		check(core.Backward, a.Name, gradients[a.Name], slope(in[strings.TrimPrefix(a.Name, "d")], loss))
		if a.Also != "" {
			check(core.Backward, a.Name+" as the gradient of "+a.Also, gradients[a.Name], slope(in[a.Also], loss))
		}
	}
	return errors.Join(violations...)
}

// RunOracle is CheckOracle with one subtest for each case. A case that k does not support
// is an error: what is compared with a formula is the author's choice.
func RunOracle(t *testing.T, k core.Kernel, o Oracle, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := CheckOracle(t.Context(), k, o, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// near compares an output with the oracle's.
func near(got, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("it has %d elements, the oracle gives %d", len(got), len(want))
	}
	var d distance
	d.add(got, want)
	switch {
	case d.mismatch:
		return fmt.Errorf("%w: element %d is %v, the oracle gives %v", core.ErrWrongResult, d.mismatchAt, got[d.mismatchAt], want[d.mismatchAt])
	case d.relative() > oracleLimit:
		return fmt.Errorf("%w: error %.3g, limit %.3g, relative to the largest element; worst at element %d: %v, the oracle gives %v",
			core.ErrWrongResult, d.relative(), oracleLimit, d.at, got[d.at], want[d.at])
	}
	return nil
}

// slope returns the gradient of loss with respect to x, by central differences.
func slope(x []float64, loss func() float64) []float64 {
	grad := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + gradStep
		up := loss()
		x[i] = v - gradStep
		grad[i] = (up - loss()) / (2 * gradStep)
		x[i] = v
	}
	return grad
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
