package bench

import (
	"cmp"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/ceiling"
)

// row is a line of the account of a mean step.
type row struct {
	Name, Pass string
	Calls, MS  float64
	Share      float64 // of the step
	Rate       string  // at which the limiting work was done; empty if that is not known
	OfCeiling  float64 // 0 if not known
	Kernel     bool    // a fused kernel's
}

// negligible is the share of a step below which plain operations get no row of their own.
const negligible = 0.001

// rows account for every part of a mean step, what took longest first. The last ones are
// the sum of what is negligible, and what was outside of all operations.
func (v *Measured) rows(limits ceiling.Ceilings) []row {
	var rows []row
	n, total := float64(max(len(v.Steps), 1)), v.total()
	kinds, rest, small := 0, total, row{}
	for _, c := range v.calls() {
		r := row{Name: c.name(), Pass: c.Pass, Calls: float64(c.Calls) / n, MS: c.MS / n, Share: c.MS / total,
			Rate: c.rate(limits), OfCeiling: c.OfCeiling, Kernel: c.Kernel != ""}
		rest -= c.MS
		if r.Share < negligible && !r.Kernel {
			kinds++
			small.Calls, small.MS, small.Share = small.Calls+r.Calls, small.MS+r.MS, small.Share+r.Share
			continue
		}
		rows = append(rows, r)
	}
	if kinds > 0 {
		small.Name = fmt.Sprintf("others (%d)", kinds)
		rows = append(rows, small)
	}
	return append(rows, row{Name: "outside of these", MS: max(rest, 0) / n, Share: max(rest, 0) / total})
}

// name is the operation with the kernel behind it.
func (c Call) name() string {
	if c.Kernel == "" {
		return c.Op
	}
	return fmt.Sprintf("%s (%s)", c.Op, c.Kernel)
}

// rate is how fast the work was done that limits the call: operations or bytes.
func (c Call) rate(limits ceiling.Ceilings) string {
	_, compute := limits.Floor(float64(c.Work.Bytes), c.Work.Flops())
	switch {
	case c.MS <= 0 || c.Work.Bytes == 0:
		return ""
	case compute:
		return gflops(1000 * c.Work.Flops() / c.MS)
	}
	return fmt.Sprintf("%s GB/s", amount.Digits(float64(c.Work.Bytes)/c.MS/1e6))
}

// title says what was measured.
func (r *Result) title() string {
	c := r.Config
	title := fmt.Sprintf("%s, %s parameters, batch %d x %d tokens, %d steps, %d threads", cmp.Or(c.Model, c.ModelType),
		amount.Count(c.Parameters), c.Batch, c.Seq, c.Steps, r.Runs[0].Threads)
	if l := c.LoRA; l.Enabled() {
		title += fmt.Sprintf(",\nwith LoRA of rank %d, %s parameters trained", l.Rank, amount.Count(c.Trained))
		if base := l.Base(); base != core.InvalidDType {
			title += ", on " + base.String()
		}
	}
	if c.Accumulate > 1 {
		title += fmt.Sprintf(",\nwith %d batches a step", c.Accumulate)
	}
	if c.Precision.Mixed() {
		title += ",\nwith products in bfloat16"
	}
	if c.GradientCheckpointing {
		title += ",\nwith gradient checkpointing"
	}
	return title
}

// String says what the machine is, and what that machine can do.
func (m Machine) String() string {
	s := fmt.Sprintf("%s, %d cores, %s/%s, %s", m.CPU, m.Cores, m.OS, m.Arch, m.Go)
	if c := m.Ceilings; c.Threads > 0 {
		s += fmt.Sprintf("\nceilings: memory %s GB/s and products %s with %d threads,\n          %s GB/s and %s with one",
			amount.Digits(c.Bandwidth/1e9), gflops(c.Products), c.Threads, amount.Digits(c.Bandwidth1/1e9), gflops(c.Products1))
	}
	return s
}

// String says what part of a step is matrix products, and how fast they are.
func (p Products) String() string {
	s := fmt.Sprintf("matrix products: %s GFLOP, %s of the step, %s", amount.Digits(p.Flops/1e9), percent(p.Share),
		gflops(p.Rate))
	if p.OfCeiling > 0 {
		s += fmt.Sprintf(", %s of the ceiling", percent(p.OfCeiling))
	}
	return s
}

// boundary says what crossing it takes of a step; empty if nothing crossed it.
func (v *Measured) boundary() string {
	if v.Boundary.WaitedMS == 0 {
		return ""
	}
	return fmt.Sprintf("boundary to the plugins: %s ms a step, %.2f%% of it",
		amount.Digits(v.Boundary.MS()/float64(len(v.Steps))),
		100*v.Boundary.MS()/v.total())
}

// gflops prints operations per second.
func gflops(perSecond float64) string { return amount.Digits(perSecond/1e9) + " GFLOP/s" }

// percent prints a share, with a digit after the point when it is small.
func percent(share float64) string {
	if share < 0.0995 {
		return fmt.Sprintf("%.1f%%", 100*share)
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// size writes bytes, and a dash where they are unknown.
func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return amount.Bytes(bytes)
}
