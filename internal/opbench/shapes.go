package opbench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/ops"
)

// use is one op with one shape, ready to be measured.
type use struct {
	kerneltest.Case
	shape   string // its name
	lossToo bool
}

// usesOf returns what a kernel is measured with: the uses of its op, and those again with products in bfloat16 if
// it can do them. One that can do these only has no other.
func usesOf(k core.Kernel, d core.DType, tokens []int) []use {
	stored := uses(k.Info().Op, d, tokens)
	var rounded []use
	for _, u := range stored {
		u.Facts.Products = core.BFloat16
		u.shape += " bf16"
		if k.Supports(u.Facts) == nil {
			rounded = append(rounded, u)
		}
	}
	if len(rounded) > 0 {
		stored = slices.DeleteFunc(stored, func(u use) bool { return errors.Is(k.Supports(u.Facts), core.ErrNotSupported) })
	}
	return append(stored, rounded...)
}

// uses returns what an op is measured with, those of one shape together; tokens replaces
// the op's own numbers of them unless it is nil.
func uses(op core.Op, d core.DType, tokens []int) []use {
	o := ops.Of(op)
	if tokens == nil {
		tokens = o.Tokens
	}
	var all []use
	for _, s := range o.Shapes {
		s.Facts.DType = d
		if op.HasWeights() {
			s.Facts.WeightDType = d
		}
		for _, t := range tokens {
			u := use{shape: fmt.Sprintf("%d%s", t, s.Name), lossToo: o.LossToo,
				Case: kerneltest.Case{Op: op, Facts: s.Facts, Tokens: t, Seed: 1, Edit: o.Batch}}
			if o.Positions > 0 {
				u.Positions = t
			}
			all = append(all, u)
		}
	}
	return all
}
