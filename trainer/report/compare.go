package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

//go:embed compare.html
var compareHTML string

//go:embed compare.css
var compareCSS string

// MostRuns is how many runs a page compares: as many as have colours of their own.
const MostRuns = chart.Colors

// Named is a run with the name that it has in a comparison.
type Named struct {
	Name string       `json:"name"`
	Run  *journal.Run `json:"run"`
}

// comparison is what the template shows.
type comparison struct {
	Title, Policy string
	Style         template.CSS
	Script        template.JS

	Keys    []chart.Key
	Results []result
	Plots   []plot // the first is the largest
	Differ  []setting
	Same    int // settings
}

// result is a row of the table of results.
type result struct {
	Class, Name, Status         string
	Steps, Last, Held, Best, At string
	Speed, Memory, Took         string
	Leads                       bool // the best held-out loss of all
}

// setting is a row of the table of settings: a value for each run.
type setting struct {
	Name   string
	Values []string
}

// Compare returns runs side by side as one page that needs nothing else.
func Compare(runs []Named) ([]byte, error) {
	if n := len(runs); n < 2 || n > MostRuns {
		return nil, fmt.Errorf("report: %d runs cannot be compared; a page takes 2 to %d", n, MostRuns)
	}
	t, err := chart.New("compare", compareHTML, nil)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	p := comparison{Title: fmt.Sprintf("tune: %d runs", len(runs)), Style: chart.Style(reportCSS + compareCSS),
		Script: template.JS(chart.Script)}
	p.Policy = chart.Policy(p.Style, chart.Script, "")
	for i, r := range runs {
		if r.Run.Start == nil {
			return nil, errors.New("report: run " + r.Name + " has not begun")
		}
		p.Keys = append(p.Keys, chart.Key{Class: chart.Class(i), Name: r.Name})
	}
	p.Results = results(runs)
	p.Plots = overlays(runs)
	p.Differ, p.Same = settings(runs)
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// results sums each run up.
func results(runs []Named) []result {
	var all []result
	lead := -1
	for i, r := range runs {
		row := result{Class: chart.Class(i), Name: r.Name, Status: r.Run.State()}
		if end := r.Run.End; end != nil && end.Error != "" {
			row.Status += ": " + end.Error
		}
		sum := total(r.Run)
		if n := len(r.Run.Steps); n > 0 {
			row.Steps = strconv.Itoa(r.Run.Steps[n-1].Step)
			row.Last = loss(r.Run.Steps[n-1].Loss)
		}
		if n := len(r.Run.Evals); n > 0 {
			row.Held = loss(r.Run.Evals[n-1].Loss)
		}
		if e, ok := r.Run.Best(); ok {
			row.Best, row.At = loss(e.Loss), strconv.Itoa(e.Step)
			if other, ok := lowest(runs, lead); !ok || e.Loss < other {
				lead = i
			}
		}
		if sum.seconds > 0 {
			row.Speed, row.Took = amount.Count(float64(sum.tokens)/sum.seconds), duration(sum.seconds)
		}
		if sum.memory > 0 {
			row.Memory = amount.Bytes(float64(sum.memory))
		}
		all = append(all, row)
	}
	if lead >= 0 {
		all[lead].Leads = true
	}
	return all
}

// lowest returns the best held-out loss of run i, if there is such a run.
func lowest(runs []Named, i int) (float64, bool) {
	if i < 0 {
		return 0, false
	}
	e, ok := runs[i].Run.Best()
	return e.Loss, ok
}

// overlays are the charts, each with a curve of every run.
func overlays(runs []Named) []plot {
	highest := int64(0)
	for _, r := range runs {
		highest = max(highest, total(r.Run).memory)
	}
	scale, unit := amount.ByteUnit(float64(highest))
	axes := chart.Axes{X: "step", Y: loss, Tick: chart.Number}
	all := []plot{
		overlay("Training loss", "", axes, runs, func(r *journal.Run, s chart.Series) []chart.Series {
			return background(series(r, s.Name, s.Class, func(s journal.Step) float64 { return s.Loss }))
		}),
		overlay("Held-out loss", "", axes, runs, func(r *journal.Run, s chart.Series) []chart.Series {
			s.Dots = true
			for _, e := range r.Evals {
				s.X, s.Y = append(s.X, float64(e.Step)), append(s.Y, e.Loss)
			}
			return []chart.Series{s}
		}),
	}
	if tokens := byTokens(runs, axes); tokens != nil {
		all = append(all, *tokens)
	}
	for _, o := range []struct {
		title, detail string
		write         func(float64) string
		value         func(journal.Step) float64
	}{
		{"Learning rate", "", chart.Number, func(s journal.Step) float64 { return s.LR }},
		{"Gradient norm", "before clipping", chart.Number, func(s journal.Step) float64 { return s.GradNorm }},
		{"Speed", "tokens per second, padding included", amount.Count[float64], journal.Step.Rate},
		{"Memory", "of tune itself, with tensors that plugins share",
			func(v float64) string { return chart.Number(v) + " " + unit },
			func(s journal.Step) float64 { return float64(s.Memory) / scale }},
	} {
		all = append(all, overlay(o.title, o.detail, chart.Axes{X: "step", Y: o.write, Zero: true}, runs,
			func(r *journal.Run, s chart.Series) []chart.Series {
				if o.title == "Memory" && total(r).memory == 0 { // unknown
					return nil
				}
				return []chart.Series{series(r, s.Name, s.Class, o.value)}
			}))
	}
	return slices.DeleteFunc(all, func(p plot) bool { return len(p.Curves) == 0 })
}

// background returns a series, behind whose smoothed form the points have no name: under the pointer, a run has one
// figure.
func background(s chart.Series) []chart.Series {
	all := smoothed(s)
	if len(all) > 1 {
		all[0].Name = ""
	}
	return all
}

// overlay makes a chart of what curves gives for each run, which is given a series with its name and class.
// The colours are explained once for the page.
func overlay(title, detail string, a chart.Axes, runs []Named,
	curves func(*journal.Run, chart.Series) []chart.Series) plot {
	var all []chart.Series
	for i, r := range runs {
		all = append(all, curves(r.Run, chart.Series{Name: r.Name, Class: chart.Class(i)})...)
	}
	a.Label = fmt.Sprintf("%s by %s, of %d runs", title, a.X, len(runs))
	p := plot{title, detail, chart.NewPlot(a, all...)}
	p.Keys = nil
	return p
}

// byTokens shows losses over the tokens that were trained on, where steps are of different sizes: nil if all
// are alike.
func byTokens(runs []Named, a chart.Axes) *plot {
	sizes := map[int]bool{}
	for _, r := range runs {
		if n := len(r.Run.Steps); n > 0 {
			sizes[total(r.Run).tokens/n] = true
		}
	}
	if len(sizes) < 2 {
		return nil
	}
	a.X = "tokens"
	p := overlay("Training loss by tokens", "steps of these runs differ in size", a, runs,
		func(r *journal.Run, s chart.Series) []chart.Series {
			seen := 0
			for _, step := range r.Steps {
				seen += step.Tokens
				s.X, s.Y = append(s.X, float64(seen)), append(s.Y, step.Loss)
			}
			return background(s)
		})
	return &p
}

// settings lists what the runs do not have in common, and counts the rest.
func settings(runs []Named) (differ []setting, same int) {
	var names []string
	values := make([]map[string]string, len(runs))
	for i, r := range runs {
		values[i] = map[string]string{}
		for _, s := range slices.Concat(flatten(r.Run.Start.Config), facts(r.Run.Start)) {
			if _, twice := values[i][s[0]]; !twice && !slices.Contains(names, s[0]) {
				names = append(names, s[0])
			}
			values[i][s[0]] = s[1]
		}
	}
	for _, name := range names {
		if name == "out" { // it differs always, and gives the runs their names
			continue
		}
		row := setting{Name: name}
		for _, v := range values {
			value, ok := v[name]
			if !ok {
				value = "–"
			}
			row.Values = append(row.Values, value)
		}
		if len(slices.Compact(slices.Clone(row.Values))) == 1 {
			same++
			continue
		}
		differ = append(differ, row)
	}
	return differ, same
}

// facts are what a run was besides its configuration.
func facts(s *journal.Start) [][2]string {
	kernels := map[string]bool{}
	var names []string
	for _, site := range s.Sites {
		if site.Kernel != "" && !kernels[site.Kernel] {
			kernels[site.Kernel] = true
			names = append(names, site.Kernel)
		}
	}
	slices.Sort(names)
	if names == nil {
		names = []string{}
	}
	list, err := json.Marshal(names)
	if err != nil { // which strings never give
		list = nil
	}
	e := s.Environment
	return [][2]string{{"kernels in use", string(list)}, {"parameters", strconv.Itoa(s.Parameters)},
		{"rows to train on", strconv.Itoa(s.Rows)}, {"rows held out", strconv.Itoa(s.EvalRows)}, {"processor", e.CPU},
		{"threads in use", strconv.Itoa(e.Threads)}, {"vector instructions", e.SIMD}, {"tune", e.Program}}
}
