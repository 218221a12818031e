package measure

import (
	"context"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/confidence"
)

// A measurement takes fewestRounds, however long they are, and then goes on until budget
// is spent or mostRounds are made: more would hardly change the medians. Where it is still in
// doubt whether the kernel is worth it, as on a machine that is busy with something else, it goes
// on twice as long, and again, until that is longest or four times as many.
const (
	fewestRounds = confidence.Least
	mostRounds   = 100
	budget       = 150 * time.Millisecond
	longest      = time.Second
)

// probe is nn.Probe, as far as time is concerned.
type probe interface {
	// Run returns the time that the op took, and that what comes before and after took.
	Run(ctx context.Context, fused bool) (op, neighbours time.Duration, err error)
}

// rounds runs both ways in turn, and adds medians of the op's time to what is known of the memory.
func rounds(ctx context.Context, p probe, sizes core.Measurement) (m core.Measurement, err error) {
	var op, beside [2][]time.Duration // plain, kernel
	var start clock.Moment
	look := fewestRounds
	for round := 0; ; round++ {
		for i := range 2 {
			way := (round + i) % 2 // each goes first in every other round
			took, neighbours, err := p.Run(ctx, way == 1)
			if err != nil {
				return sizes, err
			}
			op[way] = append(op[way], took)
			beside[way] = append(beside[way], neighbours)
		}
		if round == 0 { // the first touch of all memory
			op, beside, start = [2][]time.Duration{}, [2][]time.Duration{}, clock.Now()
			continue
		}
		took := clock.Since(start)
		if round < look || round < mostRounds && took <= budget {
			continue
		}
		m := figures(op, beside, sizes)
		if m.Settled() || round >= 4*mostRounds || took > longest {
			return m, nil
		}
		look = 2 * round // of many looks, one would show what is not there
	}
}

// figures are those of some rounds. What gain the fastest runs have not is none of the kernel's: where
// other programs want the cores, two processes get more of them than one. What the neighbours of the
// kernel take longer than those of the plain forward counts as the kernel's time, if both their fastest
// runs and their medians say so: a loss that the kernel causes is in all of them. What else the machine
// does is in some, and may spare one of one way.
func figures(op, beside [2][]time.Duration, m core.Measurement) core.Measurement {
	lost := min(slices.Min(beside[1])-slices.Min(beside[0]), median(beside[1])-median(beside[0]))
	m.Plain = median(op[0])
	atBest := float64(slices.Min(op[1])) / float64(max(slices.Min(op[0]), 1))
	m.Kernel = max(median(op[1]), time.Duration(atBest*float64(m.Plain))) + max(0, lost)
	ratios := make([]float64, len(op[0]))
	for i := range ratios {
		ratios[i] = float64(op[1][i]) / float64(max(op[0][i], 1))
	}
	in := confidence.OfMedian(ratios)
	m.Doubt = (in.High - in.Low) / 2
	return m
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return (d[(len(d)-1)/2] + d[len(d)/2]) / 2
}
