package main

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// uses returns the kinds of use of an op, in small sizes: every value of every fact that
// is not a size, the others as the models here have them. Storage types come first.
func uses(op core.Op) []core.Facts {
	o := ops.Of(op)
	usual := func(d core.DType) core.Facts {
		f := o.Usual
		if f.DType = d; op.HasWeights() {
			f.WeightDType = d
		}
		return f
	}
	all := []core.Facts{usual(core.Float32), usual(core.BFloat16), usual(core.Float16)}
	for _, change := range o.Changes {
		f := usual(core.Float32)
		change(&f)
		all = append(all, f)
	}
	return all
}
