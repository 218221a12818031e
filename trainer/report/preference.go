package report

import (
	"fmt"

	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

// preferencePlots are those of training on preferences: the rewards of good and of bad answers, and how often
// they are told from one another. A run without preferences has none.
func preferencePlots(r *journal.Run) []plot {
	if len(r.Steps) == 0 || r.Steps[0].Metrics == nil {
		return nil
	}
	metric := func(name, class, of string) chart.Series {
		s := chart.Series{Name: name, Class: class}
		for _, step := range r.Steps {
			if v, ok := step.Metrics[of]; ok { // a step of kto may have no good answers, or no bad ones
				s.X, s.Y = append(s.X, float64(step.Step)), append(s.Y, v)
			}
		}
		s.Dots = len(s.X) == 1
		return s
	}
	last := r.Steps[len(r.Steps)-1]
	chosen, rejected := metric("chosen", "c0", "rewards/chosen"), metric("rejected", "c1", "rewards/rejected")
	axes := chart.Axes{X: "step", Y: chart.Number, Zero: true, Label: "Rewards by step"}
	if margin, ok := last.Metrics["rewards/margins"]; ok {
		axes.Label += fmt.Sprintf(", margin %s at step %d", chart.Number(margin), last.Step)
	}
	all := []plot{{"Rewards", "what answers have gained on the reference, times beta", chart.NewPlot(axes, chosen,
		rejected)}}
	axes.Label = fmt.Sprintf("Accuracy by step, %s at step %d", chart.Number(last.Metrics["rewards/accuracies"]),
		last.Step)
	accuracy := metric("accuracy", "c2", "rewards/accuracies")
	return append(all, plot{"Accuracy", "the share of answers whose reward is on the right side", chart.NewPlot(axes,
		accuracy)})
}
