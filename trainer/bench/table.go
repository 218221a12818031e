package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The room for the name of a variant, and of an operation, in tables of 80 columns.
const (
	nameWidth = 21
	opWidth   = 41
)

// Table returns the result for people: the variants side by side, how each compares
// with the first, and where the time of a step goes. "planned" is Memory.Total, "peak"
// is PeakRSS. Lines have at most 80 columns unless a machine's or a folder's name is long.
func (r *Result) Table() string {
	var b strings.Builder
	c, m := r.Config, r.Machine
	fmt.Fprintf(&b, "%s, %s parameters, batch %d x %d tokens, %d steps, %d threads\n", cmp.Or(c.Model, c.ModelType),
		count(c.Parameters), c.Batch, c.Seq, c.Steps, r.Runs[0].Threads)
	fmt.Fprintf(&b, "%s, %d cores, %s/%s, %s\n\n", m.CPU, m.Cores, m.OS, m.Arch, m.Go)

	fmt.Fprintf(&b, "%-*s %8s %8s %8s %7s %8s %7s %6s\n", nameWidth, "median ms", "step", "forward", "backward", "optim.", "tokens/s", "planned", "peak")
	for _, v := range r.Runs {
		fmt.Fprintf(&b, "%-*s %8.2f %8.2f %8.2f %7.2f %8.0f %7s %6s\n", nameWidth, cut(v.Kernels, nameWidth), v.Step.Median,
			v.Forward.Median, v.Backward.Median, v.Optimizer.Median, v.Tokens, size(v.Memory.Total), size(v.PeakRSS))
	}
	if len(r.Runs) > 1 {
		fmt.Fprintf(&b, "\n%-*s %s\n", nameWidth, "speed", "against "+cut(r.Runs[0].Kernels, nameWidth)+", p10 to p90 of the rounds")
		for _, v := range r.Runs[1:] {
			fmt.Fprintf(&b, "%-*s %s\n", nameWidth, cut(v.Kernels, nameWidth), v.Speedup.verdict())
		}
	}
	for _, v := range r.Runs {
		b.WriteString("\n")
		v.breakdown(&b, c.Steps)
	}
	return b.String()
}

// verdict says in words what a speed-up is. A spread that holds 1 is no difference that
// this run could show.
func (s Spread) verdict() string {
	word := "faster"
	switch {
	case s.P10 <= 1 && s.P90 >= 1:
		word = "no clear difference"
	case s.Median < 1:
		word = "SLOWER"
	}
	return fmt.Sprintf("%.3f x  (%.3f to %.3f)  %s", s.Median, s.P10, s.P90, word)
}

// line is one row of a breakdown: an operation in both passes.
type line struct {
	name              string
	calls             int
	forward, backward float64 // ms in all steps
}

// breakdown prints what each operation takes of the two passes of a mean step, the
// largest first.
func (v *Measured) breakdown(b *strings.Builder, steps int) {
	lines := v.lines()
	total, n := 0.0, float64(steps)
	for _, l := range lines {
		total += l.forward + l.backward
	}
	fmt.Fprintf(b, "%-*s %10s %9s %9s %6s\n", opWidth, cut(v.Kernels, opWidth-13)+": ms per step", "calls/step", "forward", "backward", "share")
	for _, l := range lines {
		fmt.Fprintf(b, "%-*s %10.4g %9.2f %9.2f %5.1f%%\n", opWidth, cut(l.name, opWidth), float64(l.calls)/n, l.forward/n, l.backward/n,
			100*(l.forward+l.backward)/max(total, 1e-9))
	}
	if v.Fallbacks > 0 {
		fmt.Fprintf(b, "WARNING: the reference stood in for a kernel in %d calls\n", v.Fallbacks)
	}
}

// lines joins the passes of each operation.
func (v *Measured) lines() []line {
	var lines []line
	for _, c := range slices.Concat(v.KernelCalls, v.PlainCalls) {
		name := c.Op
		if c.Kernel != "" {
			name = fmt.Sprintf("%s (%s)", c.Op, c.Kernel)
		}
		i := slices.IndexFunc(lines, func(l line) bool { return l.name == name })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{name: name})
		}
		lines[i].calls += c.Calls
		if c.Pass == "backward" {
			lines[i].backward += c.MS
		} else {
			lines[i].forward += c.MS
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Compare(b.forward+b.backward, a.forward+a.backward)
	})
	return lines
}

// cut shortens a name to the width of its column.
func cut(name string, width int) string {
	if len(name) <= width {
		return name
	}
	return name[:width-3] + "..."
}

// size prints bytes with three digits, such as 1.25G, and a dash when they are unknown.
func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return scaled(float64(bytes), 1024, "B", "K", "M", "G", "T")
}

// count prints a number with three digits, such as 596M.
func count(n int) string { return scaled(float64(n), 1000, "", "K", "M", "B") }

func scaled(v, by float64, units ...string) string {
	for ; v >= 999.5 && len(units) > 1; units = units[1:] {
		v /= by
	}
	return fmt.Sprintf("%.3g%s", v, units[0])
}
