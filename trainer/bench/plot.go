package bench

import "github.com/seed98097648/tune/internal/chart"

// roundPlot shows the steps of all variants, round by round.
func (r *Result) roundPlot() chart.Plot {
	var all []chart.Series
	low, high := r.Runs[0].Step.Median, 0.0
	for i, v := range r.Runs {
		s := chart.Series{Name: v.Kernels, Class: chart.Class(i), Dots: true}
		for j, step := range v.Steps {
			s.X, s.Y = append(s.X, float64(j+1)), append(s.Y, step.Whole)
			low, high = min(low, step.Whole), max(high, step.Whole)
		}
		all = append(all, s)
	}
	// The foot is zero unless all steps are alike: then their spread is to be seen.
	return chart.NewPlot(chart.Axes{Label: "Time of each step", X: "round", Y: millis,
		Tick: func(v float64) string { return chart.Number(v) + " ms" }, Zero: low < 0.7*high}, all...)
}
