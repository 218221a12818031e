package bench

import (
	"time"

	"github.com/seed98097648/tune/internal/confidence"
	"github.com/seed98097648/tune/internal/opbench"
)

// Spread describes the values of several steps: percentiles with linear interpolation.
type Spread opbench.Stat

// newSpread needs at least one value.
func newSpread(values []float64) Spread {
	return Spread(opbench.NewStat(values))
}

// Interval holds the true median of a ratio.
type Interval confidence.Interval

// leastRounds is how many steps of each variant an interval takes.
const leastRounds = confidence.Least

// newInterval returns nil with fewer values than leastRounds.
func newInterval(values []float64) *Interval { return (*Interval)(confidence.OfMedian(values)) }

// verdict says in words what an interval of speed-ups shows: one that holds 1 shows no
// difference.
func (i *Interval) verdict() string {
	switch {
	case i == nil:
		return "too few rounds"
	case i.Low > 1:
		return "faster"
	case i.High < 1:
		return "SLOWER"
	}
	return "no clear difference"
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
