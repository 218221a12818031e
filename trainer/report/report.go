// Package report shows a training run as a page: its losses and other figures over the
// steps, which kernels it has used and for how long, what went wrong with them, and how
// and where it ran. The page of a run that goes on brings itself up to date.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

//go:embed live.js
var liveJS string

// page is what the template shows.
type page struct {
	Title  string
	Policy string
	Style  template.CSS
	Script template.JS
	Live   bool

	Status   string
	Class    string // of the status: running, ended or failed
	Error    string
	Tiles    []tile
	Loss     chart.Plot
	Others   []plot
	Times    *chart.Bars // nil while none are known
	Calls    []call
	Patch    patch
	Accident accidents
	Notes    []note
	Figures  []figure
	Config   [][2]string
	Machine  [][2]string
}

// tile is a figure that sums up the run.
type tile struct{ Name, Value, Detail string }

// plot is a chart with its heading.
type plot struct {
	Title, Detail string
	chart.Plot
}

// HTML returns the run as one page that needs nothing else: it can be sent, kept and
// opened anywhere. Dir is the folder of the run.
func HTML(r *journal.Run, dir string) ([]byte, error) {
	return render(r, dir, false, time.Time{})
}

// render makes the page; a live one has the script that renews it, and says how the run
// stands at a time.
func render(r *journal.Run, dir string, live bool, now time.Time) ([]byte, error) {
	t, err := chart.New("report", reportHTML, nil)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	p := page{Title: "tune: " + filepath.Base(dir), Live: live, Style: chart.Style(reportCSS),
		Script: template.JS(chart.Script)}
	sources := ""
	if live {
		p.Script += template.JS(liveJS)
		sources = "'self'"
	}
	p.Policy = chart.Policy(p.Style, string(p.Script), sources)
	p.fill(r, now)
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// fill takes what the run has told so far, which may be nothing yet.
func (p *page) fill(r *journal.Run, now time.Time) {
	p.Status, p.Class, p.Error = status(r, p.Live, now)
	if r.Start == nil {
		return
	}
	p.Tiles = tiles(r)
	p.Loss = lossPlot(r)
	p.Others = slices.Concat(preferencePlots(r), otherPlots(r), waitPlot(r))
	p.Times, p.Calls = kernelTimes(r.Calls)
	p.Patch = newPatch(r.Start)
	p.Accident = newAccidents(r.Incidents)
	p.Notes = notes(r)
	p.Figures = figures(r)
	p.Config = flatten(r.Start.Config)
	p.Machine = machine(r.Start)
}

// status says in a sentence how the run stands.
func status(r *journal.Run, live bool, now time.Time) (text, class, failure string) {
	if r.Start == nil {
		return "The run has not begun: the model and its data are being read.", "running", ""
	}
	done, of := 0, r.Start.Steps
	if n := len(r.Steps); n > 0 {
		done = r.Steps[n-1].Step
	}
	at := fmt.Sprintf("step %d of %d", done, of)
	switch {
	case r.End == nil && !live:
		return "Not ended: the last that was heard of the run is " + at + ", " + r.Updated.Local().Format(clock) +
			". It goes on, or was killed.", "running", ""
	case r.End == nil:
		return "Running: " + at + left(r, done, now) + ".", "running", ""
	case r.End.Interrupted:
		return fmt.Sprintf("Interrupted after %s.", at), "failed", ""
	case r.End.Error != "":
		return fmt.Sprintf("Failed after %s.", at), "failed", r.End.Error
	}
	return fmt.Sprintf("Ended after %s, %s.", at, r.End.Time.Local().Format(clock)), "ended", ""
}

const clock = "2006-01-02 15:04:05"

// left estimates the time until the last step, by the steps before.
func left(r *journal.Run, done int, now time.Time) string {
	const last = 20
	recent := r.Steps[max(0, len(r.Steps)-last):]
	seconds := 0.0
	for _, s := range recent {
		seconds += s.Seconds
	}
	if seconds == 0 || done >= r.Start.Steps {
		return ""
	}
	rest := seconds / float64(len(recent)) * float64(r.Start.Steps-done)
	if since := now.Sub(r.Updated).Seconds(); since > 0 {
		rest = max(rest-since, 0)
	}
	return ", about " + duration(rest) + " left without evaluations"
}
