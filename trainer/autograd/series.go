package autograd

import (
	"context"
	"time"

	"github.com/seed98097648/tune/core"
)

// next runs the instruction that is next on the tape, and those behind it that can go with it in a series. It returns
// how many have run, and how much of the time is counted for them already.
func (p *Program) next(ctx context.Context, tape []*instr) (n int, counted time.Duration, err error) {
	if of, steps := p.series(tape); len(steps) > 1 {
		return runSeries(ctx, of, steps, tape)
	}
	if err := tape[0].run(ctx); err != nil {
		return 0, 0, err
	}
	return 1, 0, nil
}

func runSeries(ctx context.Context, of core.Series, steps []core.Step, tape []*instr) (n int, counted time.Duration,
	err error) {
	n, err = of.RunSeries(ctx, steps, func(i int, d time.Duration) {
		tape[i].stat.Time += d
		counted += d
	})
	return n, counted, err
}

// series returns the calls of the instructions, from the first on, that one process can run one behind the other. What
// is to be told of between them ends the series.
func (p *Program) series(tape []*instr) (of core.Series, steps []core.Step) {
	p.steps = p.steps[:0]
	for i, in := range tape {
		if in.step == nil || i > 0 && p.complete.isTold(tape[i-1]) {
			break
		}
		s := in.step()
		runs, k := core.SeriesOf(s.Kernel, s.Call)
		if runs == nil || i > 0 && runs != of {
			break
		}
		of = runs
		p.steps = append(p.steps, core.Step{Kernel: k, Call: s.Call})
	}
	return of, p.steps
}
