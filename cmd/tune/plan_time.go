package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/ceiling"
)

// time measures the machine and says how long a step is likely to take on it.
func (p *runPlan) time(ctx context.Context, threads int) error {
	// Before this program adds to it: how many processes have wanted to run in the last minute,
	// see proc_loadavg(5); 0 where nothing tells.
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(load), &p.Busy)
	best, worst, err := ceiling.Range(ctx, threads)
	if err != nil {
		return err
	}
	p.Ceilings = best
	from, to := p.Step(best, worst)
	p.From, p.To = from.Seconds(), to.Seconds()
	return nil
}

// isBusy is the share of the cores from which others make a difference.
const isBusy = 0.25

func (p *runPlan) printTime(w io.Writer) {
	if p.To == 0 {
		return
	}
	fmt.Fprintf(w, "\ntime of a step, with %s at up to %.0f GFLOP/s and %.0f GB/s\n",
		amount.Of(p.Ceilings.Threads, "thread"), p.Ceilings.Products/1e9, p.Ceilings.Bandwidth/1e9)
	fmt.Fprintf(w, "  %s to %s: %.0f to %.0f tokens/s\n", duration(p.From), duration(p.To), float64(p.Tokens)/p.To,
		float64(p.Tokens)/p.From)
	if p.Busy > isBusy*float64(runtime.NumCPU()) {
		fmt.Fprintf(w, "  other programs kept %.1f of the %s busy in the last minute: without\n  them steps may be "+
			"faster than that\n", p.Busy, amount.Of(runtime.NumCPU(), "core"))
	}
}

func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Microsecond
	for d >= 1000*unit { // three digits
		unit *= 10
	}
	return d.Round(unit).String()
}
