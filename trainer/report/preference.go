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
	metric := func(name string) func(journal.Step) float64 {
		return func(s journal.Step) float64 { return s.Metrics[name] }
	}
	last := r.Steps[len(r.Steps)-1]
	chosen := series(r, "chosen", "c0", metric("rewards/chosen"))
	rejected := series(r, "rejected", "c1", metric("rewards/rejected"))
	axes := chart.Axes{X: "step", Y: chart.Number, Zero: true}
	axes.Label = fmt.Sprintf("Rewards by step, margin %s at step %d", chart.Number(last.Metrics["rewards/margins"]),
		last.Step)
	all := []plot{{"Rewards", "what answers have gained on the reference, times beta", chart.NewPlot(axes, chosen,
		rejected)}}
	axes.Label = fmt.Sprintf("Accuracy by step, %s at step %d", chart.Number(last.Metrics["rewards/accuracies"]),
		last.Step)
	accuracy := series(r, "accuracy", "c2", metric("rewards/accuracies"))
	return append(all, plot{"Accuracy", "the share of answers whose reward is on the right side", chart.NewPlot(axes,
		accuracy)})
}
