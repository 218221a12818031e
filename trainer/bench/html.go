package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

// page is what the template shows.
type page struct {
	Title     string
	Style     template.CSS
	Headlines []headline
	Steps     chart.Bars // milliseconds, by part of the step
	Floor     bool       // the floor is among the steps
	Kernels   chart.Bars // milliseconds, by operation
	Memory    chart.Bars // bytes
	Rounds    chart.Plot
	Runs      []account
	Facts     [][2]string
}

// headline is what a variant came to, in one sentence.
type headline struct {
	Text, Detail string
	Class        string // good, bad or even
}

// account is the table of a variant.
type account struct {
	Kernels string
	Rows    []row
	Notes   []string
	Warning string
}

// HTML returns the result as one page with charts, which loads nothing from elsewhere:
// it can be sent, kept and opened anywhere.
func (r *Result) HTML() ([]byte, error) {
	t, err := chart.New("report", reportHTML, template.FuncMap{"digits": amount.Digits, "percent": percent,
		"clip": func(share float64) float64 { return 100 * min(share, 1) }})
	if err != nil {
		return nil, fmt.Errorf("bench: page: %w", err)
	}
	p := page{Title: r.title(), Style: chart.Style(reportCSS), Headlines: r.headlines(),
		Steps: r.stepChart(), Floor: r.Floor.MS > 0, Kernels: r.kernelChart(), Memory: r.memoryChart(),
		Rounds: r.roundPlot(), Facts: r.facts()}
	for i := range r.Runs {
		p.Runs = append(p.Runs, r.Runs[i].page(r.Machine))
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("bench: page: %w", err)
	}
	return b.Bytes(), nil
}

// headlines compares every variant with the first; alone, that has its own.
func (r *Result) headlines() []headline {
	first := r.Runs[0]
	if len(r.Runs) == 1 {
		return []headline{{Text: fmt.Sprintf("%s: %s ms a step", first.Kernels, amount.Digits(first.Step.Median)),
			Detail: fmt.Sprintf("%.0f tokens per second; nothing to compare it with", first.Tokens), Class: "even"}}
	}
	var all []headline
	for _, v := range r.Runs[1:] {
		all = append(all, v.headline(first))
	}
	return all
}

func (v *Measured) headline(first Measured) headline {
	h := headline{Class: "even", Text: fmt.Sprintf("%s: no clear difference from %s", v.Kernels, first.Kernels)}
	switch v.SpeedupInterval.verdict() {
	case "faster":
		h.Class, h.Text = "good", fmt.Sprintf("%s is %.2f times as fast as %s", v.Kernels, v.Speedup.Median, first.Kernels)
	case "SLOWER":
		h.Class, h.Text = "bad", fmt.Sprintf("%s is SLOWER than %s: a step takes %.2f times as long", v.Kernels,
			first.Kernels, 1/v.Speedup.Median)
	case "too few rounds":
		h.Text = fmt.Sprintf("%s against %s: too few rounds to tell", v.Kernels, first.Kernels)
	}
	h.Detail = fmt.Sprintf("Speed %.3f", v.Speedup.Median)
	if i := v.SpeedupInterval; i != nil {
		h.Detail += fmt.Sprintf(", 95%% interval %.3f to %.3f", i.Low, i.High)
	}
	h.Detail += fmt.Sprintf(", over %d rounds. A step takes %s ms instead of %s.", len(v.Steps),
		amount.Digits(v.Step.Median), amount.Digits(first.Step.Median))
	return h
}

func (v *Measured) page(m Machine) account {
	a := account{Kernels: v.Kernels, Rows: v.rows(m.Ceilings)}
	if v.OverFloor > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("A step takes %s times its floor.", v.overFloor()))
	}
	if v.Products.Flops > 0 {
		a.Notes = append(a.Notes, capital(v.Products.String())+".")
	}
	if s := v.boundary(); s != "" {
		a.Notes = append(a.Notes, capital(s)+".")
	}
	if v.Fallbacks > 0 {
		a.Warning = fmt.Sprintf("The reference stood in for a kernel in %d calls: these times are not the kernels' own.",
			v.Fallbacks)
	}
	return a
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// facts are the machine and what was measured, as names and values.
func (r *Result) facts() [][2]string {
	m, c := r.Machine, r.Config
	facts := [][2]string{
		{"Processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)},
		{"System", fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, m.Go)},
		{"Threads", fmt.Sprint(r.Runs[0].Threads)},
	}
	if l := m.Ceilings; l.Threads > 0 {
		facts = append(facts,
			[2]string{"Memory ceiling", fmt.Sprintf("%s GB/s (one thread %s)", amount.Digits(l.Bandwidth/1e9),
				amount.Digits(l.Bandwidth1/1e9))},
			[2]string{"Product ceiling", fmt.Sprintf("%s (one thread %s)", gflops(l.Products), gflops(l.Products1))})
	}
	if f := r.Floor; f.MS > 0 {
		facts = append(facts, [2]string{"Floor of a step", fmt.Sprintf("%s ms: %s, then %s", amount.Digits(f.MS),
			f.compute(), f.update())})
	}
	model := c.ModelType + ", random weights"
	if c.Model != "" {
		model = fmt.Sprintf("%s (%s)", c.Model, c.ModelType)
	}
	return append(facts,
		[2]string{"Model", model},
		[2]string{"Parameters", fmt.Sprintf("%s, %s of them trained", amount.Count(c.Parameters), amount.Count(c.Trained))},
		[2]string{"Batch", fmt.Sprintf("%d rows of %d tokens, %d of them a step", c.Batch, c.Seq, max(c.Accumulate, 1))},
		[2]string{"Steps", fmt.Sprintf("%d of each variant, in turns", c.Steps)},
		[2]string{"Seed", fmt.Sprint(c.Seed)})
}
