package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/forecast"
)

// ranksPlan are the flags of a plan for several machines.
type ranksPlan struct {
	ranks     int
	bandwidth float64 // Gbit/s
	step      time.Duration
}

func (r *ranksPlan) add(f *pflag.FlagSet) {
	f.IntVar(&r.ranks, "ranks", 0, "chart steps of 1, 2, 4 ... to so many `MACHINES`, each with one rank and the "+
		"rows of a step here; 0 for none")
	f.Float64Var(&r.bandwidth, "bandwidth", 10, "`GBIT` a second that each machine's network sends")
	f.DurationVar(&r.step, "step-time", 0, "the `TIME` that a step of one rank takes, as measured; 0 for the longest "+
		"that is forecast")
}

func (r *ranksPlan) check(c *Command, t *trainFlags) error {
	const most = 1 << 16
	switch {
	case r.ranks < 0 || r.ranks > most:
		return c.usagef("--ranks is %d, must be between 0 and %d", r.ranks, most)
	case !(r.bandwidth > 0):
		return c.usagef("--bandwidth is %g, must be positive", r.bandwidth)
	case r.ranks > 1 && t.config.Optimizer.UpdateInBackward:
		return c.usagef("--update-in-backward is not for several ranks yet, whose gradients are summed first: leave it " +
			"or --ranks out")
	case r.step < 0:
		return c.usagef("--step-time is %v, must not be negative", r.step)
	}
	return nil
}

// forecast is what to expect of 1, 2, 4 ... ranks.
func (r *ranksPlan) forecast(p *runPlan, t *trainFlags) []forecast.OfRanks {
	of := forecast.Ranks{Step: r.step, Bandwidth: r.bandwidth * 1e9 / 8, Element: 4, Shard: t.ranks.shard,
		Saves: t.config.Checkpoints.SaveEvery > 0 || t.config.Checkpoints.SaveEpochs > 0, Threads: simd.Threads()}
	if of.Step == 0 {
		of.Step = time.Duration(p.To * float64(time.Second))
	}
	if distributed.Type(t.ranks.reduce) == distributed.BFloat16 {
		of.Element = 2
	}
	var all []forecast.OfRanks
	for n := 1; n <= r.ranks; n *= 2 {
		all = append(all, p.Forecast.Ranks(n, of, p.moments))
	}
	return all
}

// printRanks charts the efficiency.
func (p *runPlan) printRanks(w io.Writer) {
	if len(p.Ranks) == 0 {
		return
	}
	fmt.Fprintf(w, "\nmachines, each with the rows of a step above\n  %8s %10s %10s %12s %10s\n", "ranks", "step",
		"of it waits", "tokens/s", "memory")
	for _, r := range p.Ranks {
		fmt.Fprintf(w, "  %8d %10s %10s %12.0f %10s  %3.0f%% %s\n", r.Ranks, duration(r.Step), duration(r.Waits), r.Tokens,
			amount.Bytes(r.Bytes), 100*r.Efficiency, strings.Repeat("#", int(20*r.Efficiency+0.5)))
	}
}
