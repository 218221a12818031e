package bench

import (
	"cmp"
	"slices"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
)

func millis(v float64) string { return amount.Digits(v) + " ms" }

// stepChart shows the parts of the median step, and below them those of the floor.
func (r *Result) stepChart() chart.Bars {
	c := chart.Bars{Keys: []chart.Key{{Class: "c0", Name: "forward"}, {Class: "c1", Name: "backward"}, {Class: "c2", Name: "optimizer"}}}
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
		c.Bars = append(c.Bars, chart.NewBar("floor", millis(f.MS), c.Keys, []float64{0, 0, f.computeMS(), f.updateMS()}, full, millis))
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
			c.Bars = append(c.Bars, chart.NewBar(v.Kernels+", peak", size(v.PeakRSS), c.Keys, []float64{0, 0, 0, float64(v.PeakRSS)}, float64(full), bytes))
		}
	}
	return c
}

// kernelChart shows where a mean step goes, by operation: those that take longest in any
// variant have a colour, the others are one part.
func (r *Result) kernelChart() chart.Bars {
	times := make([]map[string]float64, len(r.Runs))
	worst := map[string]float64{}
	full := 0.0
	for i, v := range r.Runs {
		times[i] = map[string]float64{}
		n := float64(max(len(v.Steps), 1))
		for _, c := range v.calls() {
			times[i][c.name()] += c.MS / n
		}
		for name, t := range times[i] {
			worst[name] = max(worst[name], t)
		}
		full = max(full, v.total()/n)
	}
	names := make([]string, 0, len(worst))
	for name := range worst {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), chart.Colors)]
	var c chart.Bars
	for i, name := range names {
		c.Keys = append(c.Keys, chart.Key{Class: chart.Class(i), Name: name})
	}
	c.Keys = append(c.Keys, chart.Key{Class: chart.Other, Name: "everything else"})
	for i, v := range r.Runs {
		mean := v.total() / float64(max(len(v.Steps), 1))
		amounts, rest := make([]float64, 0, len(c.Keys)), mean
		for _, name := range names {
			amounts = append(amounts, times[i][name])
			rest -= times[i][name]
		}
		c.Bars = append(c.Bars, chart.NewBar(v.Kernels, millis(mean), c.Keys, append(amounts, rest), full, millis))
	}
	return c
}
