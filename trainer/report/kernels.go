package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

// call is a row of the table of times.
type call struct {
	Name, Pass    string
	Kernel        bool // a fused kernel's
	Calls         int
	Seconds, Each string
	Share         float64 // percent of all
	Percent       string
}

// kernelTimes shows where the time went: a bar by operation, and all of its parts.
func kernelTimes(calls []journal.Call) (*chart.Bars, []call) {
	all := chart.Sum{Label: "all operations", Parts: map[string]float64{}}
	for _, c := range calls {
		all.Parts[nameOf(c)] += c.Seconds
		all.Total += c.Seconds
	}
	if all.Total <= 0 {
		return nil, nil
	}
	bars := chart.NewSums([]chart.Sum{all}, duration)
	var rows []call
	for _, c := range calls {
		const negligible = 0.0005
		if share := c.Seconds / all.Total; share >= negligible || c.Kernel != "" {
			rows = append(rows, call{Name: nameOf(c), Pass: c.Pass, Kernel: c.Kernel != "", Calls: c.Calls,
				Seconds: duration(c.Seconds),
				Each:    duration(c.Seconds / float64(max(c.Calls, 1))), Share: 100 * share,
				Percent: fmt.Sprintf("%.1f%%", 100*share)})
		}
	}
	return &bars, rows
}

func nameOf(c journal.Call) string {
	if c.Kernel == "" {
		return c.Op
	}
	return fmt.Sprintf("%s (%s)", c.Op, c.Kernel)
}

// patch is which kernel went where.
type patch struct {
	Sites   []sites
	Plugins []journal.Plugin
}

// sites are those that differ only in their numbers and got the same answer.
type sites struct {
	Count                         int
	Path, Op, Kernel, Why, Figure string
	Fused                         bool
}

func newPatch(s *journal.Start) patch {
	p := patch{Plugins: s.Plugins}
	at := map[sites]int{}
	for _, site := range s.Sites {
		g := sites{Path: core.PathPattern(site.Path), Op: string(site.Op), Kernel: cmp.Or(site.Kernel, "plain"),
			Why: site.Reason, Fused: site.Kernel != ""}
		if site.CoveredBy != "" {
			g.Kernel, g.Why = "covered", "its work is done at "+core.PathPattern(site.CoveredBy)
		}
		i, ok := at[g]
		if !ok {
			i = len(p.Sites)
			at[g] = i
			p.Sites = append(p.Sites, g)
			if !strings.Contains(g.Why, site.Measured) { // a refused kernel's reason has the figures
				p.Sites[i].Figure = site.Measured
			}
		}
		p.Sites[i].Count++
	}
	return p
}

// accidents is what happened to plugins.
type accidents struct {
	Text string
	Bad  bool
	Rows []accident
}

type accident struct {
	Step               int
	Name, What, Detail string
}

func newAccidents(all []journal.Incident) accidents {
	a := accidents{Text: "None: no plugin died or was wrong, and no call fell back to the reference."}
	var deaths, repeats, fallbacks, wrong uint64
	for _, i := range all {
		off := uint64(0)
		if i.TakenOff {
			off = 1
		}
		deaths, repeats, fallbacks, wrong = deaths+i.Deaths, repeats+i.Repeats, fallbacks+i.Fallbacks, wrong+off
		a.Rows = append(a.Rows, accident{i.Step, fmt.Sprintf("%s (%s)", i.Op, i.Kernel),
			happened(i.Deaths, i.Repeats, i.Fallbacks, off), i.Error})
	}
	if len(all) > 0 {
		a.Text, a.Bad = happened(deaths, repeats, fallbacks, wrong)+" in all.", fallbacks+wrong > 0
	}
	const most = 100
	if n := len(a.Rows); n > most {
		a.Rows = a.Rows[n-most:]
		a.Text += fmt.Sprintf(" The last %d are listed.", most)
	}
	return a
}

func happened(deaths, repeats, fallbacks, wrong uint64) string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		noun string
	}{{deaths, "restart"}, {repeats, "repeated call"}, {fallbacks, "fall-back"}, {wrong, "wrong kernel"}} {
		if p.n > 0 {
			parts = append(parts, amount.Of(p.n, p.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// note is something that happened on the way.
type note struct {
	Step       int
	Text       string
	IsAWarning bool
}

// notes tells of resuming, of the newest checkpoint, and of warnings.
func notes(r *journal.Run) []note {
	var all []note
	if r.Sessions > 1 {
		all = append(all, note{Step: r.Start.Resumed, Text: fmt.Sprintf("went on for the %s time", ordinal(r.Sessions-1))})
	}
	if n := len(r.Checkpoints); n > 0 {
		all = append(all, note{Step: r.Checkpoints[n-1].Step, Text: fmt.Sprintf("newest of %d checkpoints: %s", n,
			r.Checkpoints[n-1].Path)})
	}
	const most = 50
	for _, w := range r.Warnings[max(0, len(r.Warnings)-most):] {
		all = append(all, note{w.Step, w.Text, true})
	}
	return all
}

func ordinal(n int) string {
	switch {
	case n == 1:
		return "first"
	case n == 2:
		return "second"
	case n == 3:
		return "third"
	}
	return fmt.Sprintf("%d.", n)
}

// flatten lists the values of a JSON object in its order, those of objects within by their
// path.
func flatten(raw json.RawMessage) [][2]string {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var all [][2]string
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if inner := flatten(value); inner != nil {
			for _, v := range inner {
				all = append(all, [2]string{fmt.Sprint(key, ".", v[0]), v[1]})
			}
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		all = append(all, [2]string{fmt.Sprint(key), text})
	}
	return all
}

// machine lists the program, the machine, and what the run was planned to take.
func machine(s *journal.Start) [][2]string {
	e := s.Environment
	memory := fmt.Sprintf("%s parameters, %s optimizer, %s activations and gradients",
		amount.Bytes(float64(s.Memory.Parameters)),
		amount.Bytes(float64(s.Memory.Optimizer)), amount.Bytes(float64(s.Memory.Activations)))
	if s.Memory.Kept > 0 {
		memory += fmt.Sprintf(", %s packed weights kept by kernels, at most", amount.Bytes(float64(s.Memory.Kept)))
	}
	all := [][2]string{
		{"tune", e.Program}, {"Go", e.Go}, {"System", e.OS + "/" + e.Arch},
		{"Processor", fmt.Sprintf("%s, %d cores", e.CPU, e.Cores)},
		{"Threads", strconv.Itoa(e.Threads)}, {"Vector instructions", e.SIMD},
		{"Model", fmt.Sprintf("%s, %s parameters", s.Model, amount.Count(float64(s.Parameters)))},
		{"Data", fmt.Sprintf("%d rows to train on, %d held out", s.Rows, s.EvalRows)},
		{"Planned memory", memory},
		{"Begun", s.Time.Local().Format(clock)},
	}
	for _, p := range s.Plugins {
		all = append(all, [2]string{"Plugin " + p.Name, fmt.Sprintf("%s, %s, SHA-256 %s", p.Version, p.Path, p.Checksum)})
	}
	return all
}
