package kerneltest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

const (
	seriesRounds = 64 // how many series are run
	seriesPlaces = 6  // whose passes are in one
)

// inSeries has calls run one behind the other in one request, as a run has those that nothing comes between: what it
// compares is never one of these. Each must give what it gives alone. There is nothing to do where the kernel's
// process takes no series.
func (t *trial) inSeries(ctx context.Context, rng *rand.Rand, places []visited) {
	for round := range seriesRounds {
		var series core.Series
		var steps []core.Step
		var versions []version
		for _, at := range rng.Perm(len(places))[:min(len(places), seriesPlaces)] {
			p := places[at]
			v := p.versions[rng.IntN(len(p.versions))]
			for _, pass := range passes(p.kernel) {
				v.runPassAt(ctx, p.place, pass, v.first, v.first, poisons[0], t.Result) // alone
				if runs, k := core.SeriesOf(p.kernel, p.calls[pass]); runs != nil && (series == nil || series == runs) {
					series, steps, versions = runs, append(steps, core.Step{Kernel: k, Call: p.calls[pass]}), append(versions, v)
				}
			}
		}
		if t.Status == Failed || len(steps) < 2 {
			return
		}
		for _, s := range steps {
			poison(s.Call, poisons[1])
		}
		if n, err := series.RunSeries(ctx, steps, nil); err != nil {
			t.fail(violation(steps[n].Call.Pass, "", fmt.Errorf("error: %w", err)))
		}
		for i, s := range steps {
			if t.Status != Failed {
				versions[i].compareAt(s.Call, versions[i].first, versions[i].first, t.Result)
			}
			if t.Status == Failed {
				t.prefix("series %d, call %d of %d, %s%v with %d tokens: ", round+1, i+1, len(steps), t.other(s.Call.Op),
					s.Call.Facts, s.Call.Tokens())
				return
			}
		}
	}
}
