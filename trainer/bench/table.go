package bench

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
)

// The room for the name of a variant, and of an operation, in tables of 80 columns.
const (
	nameWidth  = 21
	ratioWidth = 18 // where speeds are compared
	opWidth    = 29
)

// Table returns the result for people: the variants side by side, how each compares
// with the first, and where the time of a step goes. "planned" is Memory.Total, "peak"
// is PeakRSS. Lines have at most 80 columns unless a machine's or a folder's name is long.
func (r *Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", r.title(), r.Machine)
	r.times(&b)
	r.memory(&b)
	if len(r.Runs) > 1 {
		r.comparison(&b)
	}
	for _, v := range r.Runs {
		v.account(&b, r.Machine)
	}
	return b.String()
}

func (r *Result) times(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-*s %6s %6s %6s %6s %7s %8s %6s %6s\n", nameWidth, "median ms", "step", "/floor", "p10", "p90",
		"forward", "backward", "optim.", "tok/s")
	for _, v := range r.Runs {
		fmt.Fprintf(b, "%-*s %6s %6s %6s %6s %7s %8s %6s %6.0f\n", nameWidth, cut(v.Kernels, nameWidth),
			amount.Digits(v.Step.Median), v.overFloor(),
			amount.Digits(v.Step.P10), amount.Digits(v.Step.P90), amount.Digits(v.Forward.Median),
			amount.Digits(v.Backward.Median), amount.Digits(v.Optimizer.Median), v.Tokens)
	}
	if r.Floor.MS > 0 {
		fmt.Fprintln(b, r.Floor)
	}
}

func (r *Result) memory(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-*s %11s %10s %12s %9s %9s\n", nameWidth, "bytes", "parameters", "optimizer", "activations",
		"planned", "peak")
	for _, v := range r.Runs {
		m := v.Memory
		fmt.Fprintf(b, "%-*s %11s %10s %12s %9s %9s\n", nameWidth, cut(v.Kernels, nameWidth), size(m.Parameters),
			size(m.Optimizer), size(m.Program), size(m.Total), size(v.PeakRSS))
	}
	for _, v := range r.Runs {
		if v.Memory.Kept > 0 {
			fmt.Fprintf(b, "planned for %s: %s of packed weights kept by kernels, at most\n", v.Kernels, size(v.Memory.Kept))
		}
	}
}

// comparison prints speed-ups, and slow-downs as plainly.
func (r *Result) comparison(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-*s %7s  %-14s  p10 to p90\n", ratioWidth, "against "+cut(r.Runs[0].Kernels, ratioWidth-8),
		"speed", "95% interval")
	for _, v := range r.Runs[1:] {
		interval := "-"
		if i := v.SpeedupInterval; i != nil {
			interval = fmt.Sprintf("%.3f to %.3f", i.Low, i.High)
		}
		spread := fmt.Sprintf("%.3f to %.3f", v.Speedup.P10, v.Speedup.P90)
		fmt.Fprintf(b, "%-*s %5.3f x  %-14s  %-14s  %s\n", ratioWidth, cut(v.Kernels, ratioWidth), v.Speedup.Median,
			interval, spread, v.SpeedupInterval.verdict())
	}
	if len(r.Runs[0].Steps) < leastRounds {
		fmt.Fprintf(b, "A 95%% interval takes %d steps of each variant or more.\n", leastRounds)
	}
}

// account prints where the time of a mean step goes.
func (v *Measured) account(b *strings.Builder, m Machine) {
	fmt.Fprintf(b, "\n%-*s %-9s %5s %7s %5s %12s %7s\n", opWidth, cut(v.Kernels, opWidth-13)+": a mean step", "pass",
		"calls", "ms", "share", "rate", "ceiling")
	for _, r := range v.rows(m.Ceilings) {
		calls, ceiling := "", ""
		if r.Calls > 0 {
			calls = fmt.Sprintf("%.4g", r.Calls)
		}
		if r.OfCeiling > 0 {
			ceiling = percent(r.OfCeiling)
		}
		line := fmt.Sprintf("%-*s %-9s %5s %7s %5s %12s %7s", opWidth, cut(r.Name, opWidth), r.Pass, calls,
			amount.Digits(r.MS), percent(r.Share), r.Rate, ceiling)
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	if v.Products.Flops > 0 {
		fmt.Fprintln(b, v.Products)
	}
	if s := v.boundary(); s != "" {
		fmt.Fprintln(b, s)
	}
	if v.Fallbacks > 0 {
		fmt.Fprintf(b, "WARNING: the reference stood in for a kernel in %d calls\n", v.Fallbacks)
	}
}

// cut shortens a name to the width of its column.
func cut(name string, width int) string {
	if len(name) <= width {
		return name
	}
	return name[:width-3] + "..."
}
