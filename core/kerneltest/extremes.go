package kerneltest

import (
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// Extremes returns cases of op with values at the ends of what arithmetic can hold, for each
// storage type and kind of use, in small sizes. What is large or small is so by row: each
// token has its own scale and is judged by it, from the smallest numbers of the storage type,
// which have fewer digits, to those whose square is almost too large. Arguments of an
// exponential lie beyond where it overflows, in float64 too.
func Extremes(op core.Op) []Case {
	o := ops.Of(op)
	var cases []Case
	for _, d := range storage() {
		for _, f := range kinds(op, d) {
			add := func(kind string, tokens int, edit opdef.Edit, change ...func(*core.Facts)) {
				cases = append(cases, sized(op, f, kind, tokens, func(u *opdef.Use, n int) {
					u.Tokens, u.Edit = n, edit
					for _, change := range change {
						change(&u.Facts)
					}
				}))
			}
			activations, weights, rest := inputsOf(op, f)
			o.Everywhere(d, upstream(op, f), add)
			if d == core.Float16 {
				add("past the largest number", 11, opdef.Both(beyond(0, activations...), beyond(1, upstream(op, f)...)))
			}
			if len(weights) > 0 { // also where they meet zeros
				add("nan and inf in weights", 9, opdef.Both(opdef.EachThird(0, activations...), opdef.NotFinite(weights...)))
			}
			if len(rest) > 0 {
				add("nan and inf in the rest", 29, opdef.NotFinite(rest...), func(f *core.Facts) {
					if f.Scaling != "" { // columns of which one number is not finite, and some without
						f.Out, f.HeadDim = min(f.Out, 1)*13, min(f.HeadDim, 1)*14
					}
				})
			}
			if scales := scalesOf(op, f); len(scales) > 0 { // as those of rows of zeros may be
				add("scales of 0", 9, opdef.EachThird(0, scales...))
			}
			if len(activations) > 0 {
				add("smallest activations", 9, opdef.Each(opdef.Tiny(d), activations...))
			}
			if len(weights) > 0 {
				add("smallest weights", 9, opdef.Each(opdef.Tiny(f.WeightDType), weights...))
			}
			if from := upstream(op, f); len(activations) > 0 && len(from) > 0 {
				add("nan and inf in gradients", 9, opdef.NotFinite(from...))
				add("nan without a gradient", 9,
					opdef.Both(opdef.EachThird(math.NaN(), activations...), opdef.EachThird(0, from...)))
			}
			o.Extremes(f, add)
		}
	}
	return cases
}

// beyond makes every third token, from one on, so large that products of it are beyond float16.
func beyond(from int, names ...string) opdef.Edit {
	return opdef.Each(func(t, _ int, v float64) float64 {
		if t%3 == from {
			return math.Copysign(5e4, v)
		}
		return v
	}, names...)
}

// inputsOf are the activations that the forward pass starts from, the weights of floating point, and what else there
// is of that, beside caches: biases, scales, adapters, tables. Where activations become int8, what comes before that
// is left out.
func inputsOf(op core.Op, f core.Facts) (activations, weights, rest []string) {
	forward, _ := core.NewSignature(op, core.Forward, f)
	for _, a := range forward.In {
		switch {
		case a.DType == f.DType && a.Shape[0] == core.DimT:
			activations = append(activations, a.Name)
		case a.DType == f.WeightDType && a.DType != core.Int8 && a.DType != core.NF4 && a.Shape[0] > 0:
			weights = append(weights, a.Name)
		case a.DType == core.Float32 && len(a.Shape) < 3 && (!becomesInt8(op, f) || behindInt8(a.Name)):
			rest = append(rest, a.Name)
		}
	}
	if op == core.Attention { // a softmax multiplies the rounding of scores by their size
		activations = nil
	}
	return activations, weights, rest
}

// scalesOf are the scales that an op has for each row of a weight.
func scalesOf(op core.Op, f core.Facts) (names []string) {
	forward, _ := core.NewSignature(op, core.Forward, f)
	for _, a := range forward.In {
		if strings.HasSuffix(a.Name, "_scale") && a.Shape[0] > 1 {
			names = append(names, a.Name)
		}
	}
	return names
}

// becomesInt8 reports whether activations do.
func becomesInt8(op core.Op, f core.Facts) bool { return f.Scaling != "" || op == core.SharedExpertFFN }

// behindInt8 reports whether an input of an op whose activations become int8 has its part after that: a number in
// it that is not finite must not spoil more than the columns that it is of.
func behindInt8(name string) bool {
	before := []string{"input_scale", "norm_bias", "gate_scale", "up_scale", "gate_up_scale"}
	return (strings.HasSuffix(name, "_scale") || strings.HasSuffix(name, "bias")) && !slices.Contains(before, name)
}

// upstream are the gradients that the backward pass starts from.
func upstream(op core.Op, f core.Facts) (names []string) {
	forward, _ := core.NewSignature(op, core.Forward, f)
	backward, _ := core.NewSignature(op, core.Backward, f)
	for _, a := range backward.In {
		if !a.Saved && !slices.ContainsFunc(forward.In, func(b core.Arg) bool { return a.Name == b.Name }) {
			names = append(names, a.Name)
		}
	}
	return names
}
