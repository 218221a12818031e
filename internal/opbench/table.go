package opbench

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
)

// Table returns the result for people, in at most 80 columns unless a name is long.
func (r *Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads; memory %.3g GB/s, float32 products %.3g GFLOP/s\n",
		r.CPU, r.Ceilings.Threads, r.Ceilings.Bandwidth/1e9, r.Ceilings.Products/1e9)
	fmt.Fprintf(&b, "medians of %d rounds; above 100%%: tensors in a cache, or factors of fewer bits\n", r.Rounds)
	heading := ""
	for i, row := range r.Rows {
		if h := fmt.Sprintf("%s %s (%s)", row.Op, row.Shape, row.Kernel); h != heading {
			heading = h
			fmt.Fprintf(&b, "\n%s\n  %-9s %-7s %10s %21s %15s %8s\n", h, "pass", "side", "ms", "p10 - p90", "rate", "ceiling")
		}
		pass := row.Pass
		if i > 0 && r.Rows[i-1].Pass == pass && row.Side == Linked {
			pass = ""
		}
		fmt.Fprintf(&b, "  %-9s %-7s %10s %21s %15s %7.0f%%\n", pass, row.Side, amount.Digits(row.MS.Median),
			amount.Digits(row.MS.P10)+" - "+amount.Digits(row.MS.P90), row.rate(), row.CeilingPercent)
	}
	for i, s := range r.Skipped {
		if i == 0 {
			b.WriteString("\nnot measured\n")
		}
		fmt.Fprintf(&b, "  %s, %s: %s\n", s.Kernel, strings.TrimSpace(string(s.Op)+" "+s.Shape), s.Reason)
	}
	warnOfCopies(&b, r.Copies)
	return b.String()
}

// rate is in the unit of the ceiling that applies.
func (r Row) rate() string {
	if r.Bound == "compute" {
		return amount.Digits(r.GFLOPs) + " GFLOP/s"
	}
	return amount.Digits(r.GBs) + " GB/s"
}

// Table returns the result for people, in at most 80 columns.
func (b *Boundary) Table() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, %d threads\n\n", b.CPU, b.Threads)
	fmt.Fprintf(&s, "round trip of a call: rms_norm of 8 elements, as good as empty\n")
	fmt.Fprintf(&s, "  %-32s %10s %12s %12s\n", "way", "calls", "p50 us", "p99 us")
	for _, t := range b.RoundTrips {
		fmt.Fprintf(&s, "  %-32s %10d %12s %12s\n", t.Way, t.Calls, amount.Digits(t.P50), amount.Digits(t.P99))
	}
	fmt.Fprintf(&s, "\n%s, forward: medians of rounds that alternate\n", b.Kernel)
	fmt.Fprintf(&s, "  %-8s %7s %11s %11s %11s %17s %7s\n", "input", "rounds", "linked us", "across us", "differ us",
		"p10 - p90", "differ")
	for _, t := range b.Transfers {
		fmt.Fprintf(&s, "  %-8s %7d %11s %11s %11s %17s %6.1f%%\n", amount.Bytes(t.Bytes), t.Rounds,
			amount.Digits(t.Linked.Median), amount.Digits(t.Across.Median),
			amount.Digits(t.Difference.Median), amount.Digits(t.Difference.P10)+" - "+amount.Digits(t.Difference.P90),
			t.Percent)
	}
	warnOfCopies(&s, b.Copies)
	return s.String()
}

func warnOfCopies(b *strings.Builder, n uint64) {
	if n > 0 {
		fmt.Fprintf(b, "WARNING: %d tensors were copied to or from a plugin; the times include that\n", n)
	}
}
