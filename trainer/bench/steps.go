package bench

import (
	"cmp"
	"slices"
)

// The parts of a step, and the whole.
func whole(s Step) float64     { return s.Whole }
func forward(s Step) float64   { return s.Forward }
func backward(s Step) float64  { return s.Backward }
func optimizer(s Step) float64 { return s.Optimizer }

// spread describes one part of all steps.
func (v *variant) spread(part func(Step) float64) Spread {
	values := make([]float64, len(v.steps))
	for i, s := range v.steps {
		values[i] = part(s)
	}
	return newSpread(values)
}

// speedups pairs the steps that both variants made on the same batch.
func (v *variant) speedups(first *variant) []float64 {
	ratios := make([]float64, len(v.steps))
	for i := range ratios {
		ratios[i] = first.steps[i].Whole / v.steps[i].Whole
	}
	return ratios
}

func sum(steps []Step, part func(Step) float64) float64 {
	total := 0.0
	for _, s := range steps {
		total += part(s)
	}
	return total
}

// total returns the milliseconds of all steps, at least a little.
func (v *Measured) total() float64 { return max(sum(v.Steps, whole), 1e-9) }

// calls returns everything that a step was seen to do, what took longest first.
func (v *Measured) calls() []Call {
	calls := slices.Concat(v.KernelCalls, v.PlainCalls)
	if v.Update.Calls > 0 {
		calls = append(calls, v.Update)
	}
	slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(b.MS, a.MS) })
	return calls
}
