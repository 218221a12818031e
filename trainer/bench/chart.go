package bench

import (
	"slices"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
)

func millis(v float64) string { return amount.Digits(v) + " ms" }

// stepChart shows the parts of the median step, and below them those of the floor.
func (r *Result) stepChart() chart.Bars {
	c := chart.Bars{Keys: []chart.Key{{Class: "c0", Name: "forward"}, {Class: "c1", Name: "backward"},
		{Class: "c2", Name: "optimizer"}}}
	full := r.Floor.MS
	for _, v := range r.Runs {
		full = max(full, v.Step.Median, v.Forward.Median+v.Backward.Median+v.Optimizer.Median)
	}
	for _, v := range r.Runs {
		c.Bars = append(c.Bars, chart.NewBar(v.Kernels, millis(v.Step.Median), c.Keys,
			[]float64{v.Forward.Median, v.Backward.Median, v.Optimizer.Median}, full, millis))
	}
	if f := r.Floor; f.MS > 0 {
		c.Keys = slices.Insert(c.Keys, 2, chart.Key{Class: chart.Other, Name: "matrix products of the floor"})
		c.Bars = append(c.Bars, chart.NewBar("floor", millis(f.MS), c.Keys, []float64{0, 0, f.computeMS(), f.updateMS()},
			full, millis))
	}
	return c
}

// memoryChart shows what is planned, and below it what was in use at the peak.
func (r *Result) memoryChart() chart.Bars {
	c := chart.Bars{Keys: []chart.Key{{Class: "c3", Name: "parameters"}, {Class: "c4", Name: "optimizer"},
		{Class: "c5", Name: "activations and gradients"}, {Class: chart.Other, Name: "peak of all processes"}}}
	full := int64(1)
	for _, v := range r.Runs {
		full = max(full, v.Memory.Total, v.PeakRSS)
	}
	bytes := func(v float64) string { return size(int64(v)) }
	for _, v := range r.Runs {
		m := v.Memory
		c.Bars = append(c.Bars, chart.NewBar(v.Kernels+", planned", size(m.Total), c.Keys,
			[]float64{float64(m.Parameters), float64(m.Optimizer), float64(m.Program)}, float64(full), bytes))
		if v.PeakRSS > 0 {
			c.Bars = append(c.Bars, chart.NewBar(v.Kernels+", peak", size(v.PeakRSS), c.Keys,
				[]float64{0, 0, 0, float64(v.PeakRSS)}, float64(full), bytes))
		}
	}
	return c
}

// kernelChart shows where a mean step goes, by operation.
func (r *Result) kernelChart() chart.Bars {
	var all []chart.Sum
	for _, v := range r.Runs {
		n := float64(max(len(v.Steps), 1))
		s := chart.Sum{Label: v.Kernels, Parts: map[string]float64{}, Total: v.total() / n}
		for _, c := range v.calls() {
			s.Parts[c.name()] += c.MS / n
		}
		all = append(all, s)
	}
	return chart.NewSums(all, millis)
}
