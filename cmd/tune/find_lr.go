package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer"
)

// rateSteps is how many learning rates --find-lr tries.
const rateSteps = 100

// findRate tries learning rates and shows what came of them.
func (a *app) findRate(ctx context.Context, job *trainer.Job, reg *core.Registry) error {
	job.Registry, job.Measure.Logger = reg, a.logger()
	job.Hooks.OnWarning = func(err error) { a.note("warning: %v", err) }
	set, end := a.progress.Count(rateSteps, "learning rates")
	job.Hooks.OnStep = func(s trainer.Step) { set(s.Step) }
	rates, err := job.FindRate(ctx, rateSteps)
	end()
	if err != nil {
		return err
	}
	drawRates(a.stdout, rates)
	if rates.Suggested == 0 {
		fmt.Fprintln(a.stdout, "\nthe loss falls at none of these rates: look at the data, or use larger batches")
		return nil
	}
	fmt.Fprintf(a.stdout, "\nthe loss falls fastest at --lr %s; a tenth of it is a careful choice\n",
		chart.Number(round2(rates.Suggested)))
	return nil
}

// drawRates writes a bar for every few rates.
func drawRates(w io.Writer, rates *trainer.Rates) {
	const lines, width = 25, 50
	low, high := math.Inf(1), math.Inf(-1)
	every := max(1, len(rates.Points)/lines)
	for _, p := range rates.Points {
		low, high = min(low, p.Smoothed), max(high, p.Smoothed)
	}
	fmt.Fprintf(w, "%9s  %8s\n", "lr", "loss")
	for i := 0; i < len(rates.Points); i += every {
		p := rates.Points[i]
		n := 1
		if high > low {
			n += int(math.Round((width - 1) * (p.Smoothed - low) / (high - low)))
		}
		fmt.Fprintf(w, "%9.2g  %8.4f  %s\n", p.Rate, p.Smoothed, strings.Repeat("█", n))
	}
	if rates.Diverged {
		fmt.Fprintln(w, "and from there on the training diverges")
	}
}

// round2 keeps two digits of a number.
func round2(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(x/unit) * unit
}
