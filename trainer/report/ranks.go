package report

import (
	"fmt"
	"slices"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

// ofRanks are the steps that several ranks have made together, the first of which has waited for others.
func ofRanks(r *journal.Run) []journal.Step {
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s journal.Step) bool { return s.Waited <= 0 || s.Seconds <= 0 })
}

// ranksTile says what several ranks have lost to each other and the network, and which is the slowest.
func ranksTile(r *journal.Run) (t tile, several bool) {
	names, steps := r.Start.Ranks, ofRanks(r)
	if len(names) < 2 || len(steps) == 0 {
		return tile{}, false
	}
	waited, seconds, longest := 0.0, 0.0, make([]int, len(names))
	for _, s := range steps {
		waited, seconds = waited+s.Waited, seconds+s.Seconds
		if s.Slowest < len(names) { // more ranks may have begun the run
			longest[s.Slowest]++
		}
	}
	most := slices.Max(longest)
	slowest := slices.Index(longest, most)
	machines := len(slices.Compact(slices.Sorted(slices.Values(names))))
	detail := fmt.Sprintf("the first waited %.0f%% of the time for others and the network; rank %d (%s) "+
		"computed longest in %d of %s", 100*waited/seconds, slowest, names[slowest], most, amount.Of(len(steps), "step"))
	return tile{"Ranks", fmt.Sprintf("%d on %s", len(names), amount.Of(machines, "machine")), detail}, true
}

// waitPlot shows how much of each step the first rank has waited; without any step of several ranks, nothing.
func waitPlot(r *journal.Run) []plot {
	steps := ofRanks(r)
	if len(steps) == 0 {
		return nil
	}
	line := chart.Series{Name: "waiting", Class: "c4", Dots: len(steps) == 1}
	for _, s := range steps {
		line.X, line.Y = append(line.X, float64(s.Step)), append(line.Y, 100*s.Waited/s.Seconds)
	}
	y := func(v float64) string { return chart.Number(v) + "%" }
	last := len(line.Y) - 1
	label := fmt.Sprintf("Waiting for other ranks by step, %s at step %d", y(line.Y[last]), steps[last].Step)
	return []plot{{"Waiting for other ranks", "share of a step that the first rank waits, for others and the network",
		chart.NewPlot(chart.Axes{Label: label, X: "step", Y: y, Zero: true}, line)}}
}
