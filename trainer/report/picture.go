package report

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/chart"
)

// Picture returns a picture, an SVG file, of the held-out losses of several runs. A run without evaluations
// is an error that names it.
func Picture(runs []Named) ([]byte, error) {
	var all []chart.Series
	var ends []string
	for i, r := range runs {
		evals := r.Run.Evals
		if len(evals) == 0 {
			return nil, fmt.Errorf("report: %s has no evaluation: leave it out, or train with rows held out", r.Name)
		}
		s := chart.Series{Name: r.Name + ": " + loss(evals[len(evals)-1].Loss), Class: chart.Class(i), Dots: true}
		if i >= chart.Colors {
			s.Class += " dashed"
		}
		for _, e := range evals {
			s.X, s.Y = append(s.X, float64(e.Step)), append(s.Y, e.Loss)
		}
		all, ends = append(all, s), append(ends, s.Name)
	}
	label := "Held-out loss by step, and after the last: " + strings.Join(ends, ", ")
	return chart.Picture(chart.NewPlot(chart.Axes{Label: label, X: "step", Y: loss, Tick: chart.Number}, all...))
}
