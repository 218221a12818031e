package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/progress"
)

// verification is what "kernels verify --json" writes.
type verification struct {
	OK      bool             `json:"ok"`
	Part    string           `json:"in_part,omitempty"` // the flags with which not all cases were run
	Plugins []verifiedPlugin `json:"plugins"`
}

// verifiedPlugin is what came of one executable.
type verifiedPlugin struct {
	Path     string                 `json:"path"`
	Name     string                 `json:"name,omitempty"`
	Version  string                 `json:"version,omitempty"`
	Checksum string                 `json:"checksum,omitempty"`
	OK       bool                   `json:"ok"`
	Error    string                 `json:"error,omitempty"` // why it cannot be used at all
	Manifest []kerneltest.Violation `json:"manifest_violations"`
	Left     []kerneltest.Violation `json:"left_behind"` // what is there once it is closed
	Kernels  []verifiedKernel       `json:"kernels"`

	// LeftUnknown is why it is not known which processes are left.
	LeftUnknown string `json:"left_behind_unknown,omitempty"`

	opened   []core.Plugin // its processes, closed by then
	unwanted bool          // it has no kernel for the ops that are to be checked
}

// verifiedKernel is what came of one kernel, and which kinds of use it supports.
type verifiedKernel struct {
	*kerneltest.Report
	Supports []support `json:"supports"`
}

func (v *verification) add(p verifiedPlugin) {
	v.Plugins = append(v.Plugins, p)
	v.OK = v.OK && p.OK
}

// none reports whether no case was run, and nothing is wrong either.
func (v *verification) none() bool {
	return !slices.ContainsFunc(v.Plugins, func(p verifiedPlugin) bool { return !p.none() })
}

func (p verifiedPlugin) none() bool { return p.OK && len(p.Kernels) == 0 }

func (v *verification) printSummary(w io.Writer) {
	bad := 0
	for _, p := range v.Plugins {
		if !p.OK {
			bad++
		}
	}
	if bad == 0 {
		fmt.Fprintf(w, "All %d plugins are ok.\n", len(v.Plugins))
		return
	}
	fmt.Fprintf(w, "%d of %d plugins FAILED:\n", bad, len(v.Plugins))
	for _, p := range v.Plugins {
		if !p.OK {
			fmt.Fprintf(w, "  %s\n", cmp.Or(p.Name, short(p.Path)))
		}
	}
}

// print writes what is wrong first, then a table for each kernel, and a line that sums up, with the flags by which
// that is a part of the cases.
func (p verifiedPlugin) print(w io.Writer, part string) {
	title := short(p.Path)
	if p.Name != "" {
		title = strings.TrimSpace(p.Name+" "+p.Version) + ", " + title
	}
	printWrapped(w, "", title)
	if p.Error != "" {
		printWrapped(w, "  ", "cannot be used: "+p.Error)
	}
	for _, v := range p.Manifest {
		printWrapped(w, "  ", "FAILED manifest: "+v.Text)
	}
	for _, v := range p.Left {
		printWrapped(w, "  ", "FAILED left behind: "+v.Text)
	}
	for _, k := range p.Kernels {
		printFailures(w, k.Report)
	}
	for _, k := range p.Kernels {
		fmt.Fprintln(w)
		k.print(w)
	}
	if len(p.Kernels) > 0 {
		fmt.Fprint(w, "\nA cell is the number of cases run, and their largest error in percent of what\nrounding "+
			"explains.\n")
	}
	if p.LeftUnknown != "" {
		printWrapped(w, "", "processes left behind: not run: "+p.LeftUnknown)
	}
	p.printVerdict(w, part)
}

func (p verifiedPlugin) printVerdict(w io.Writer, part string) {
	failed, run, took := 0, 0, time.Duration(0)
	for _, k := range p.Kernels {
		failed += k.Count(kerneltest.Failed)
		run += len(k.Results) - k.Count(kerneltest.Skipped)
		took += k.Took
	}
	of := "cases"
	if part != "" {
		of += " with " + part
	}
	name := cmp.Or(p.Name, short(p.Path))
	switch {
	case p.OK:
		fmt.Fprintf(w, "%s: ok, %d %s in %s\n\n", name, run, of, took.Round(100*time.Millisecond))
	case p.Error != "" || failed == 0:
		fmt.Fprintf(w, "%s: FAILED\n\n", name)
	default:
		fmt.Fprintf(w, "%s: FAILED, %d of %d %s\n\n", name, failed, run, of)
	}
}

// failure is one thing that is wrong, in one case or many.
type failure struct {
	where string // op, pass, tensor
	text  string // of the first case
	first string // its name
	kinds []string
	cases int
}

// failures gathers violations of one tensor that read alike but for numbers.
func failures(r *kerneltest.Report) []*failure {
	var all []*failure
	for _, c := range r.Results {
		for _, v := range c.Violations {
			where := strings.Join(strings.Fields(string(r.Kernel.Op)+" "+v.Pass+" "+v.Tensor), " ")
			i := slices.IndexFunc(all, func(f *failure) bool { return f.where == where && wording(f.text) == wording(v.Text) })
			if i < 0 {
				i, all = len(all), append(all, &failure{where: where, text: v.Text, first: c.Case})
			}
			all[i].cases++
			if !slices.Contains(all[i].kinds, c.Kind) {
				all[i].kinds = append(all[i].kinds, c.Kind)
			}
		}
	}
	return all
}

// wording is a text up to its first number.
func wording(text string) string {
	if i := strings.IndexAny(text, "[0123456789"); i >= 0 {
		return text[:i]
	}
	return text
}

// printFailures writes what is wrong with a kernel.
func printFailures(w io.Writer, r *kerneltest.Report) {
	for _, f := range failures(r) {
		printWrapped(w, "  ", fmt.Sprintf("FAILED %s, %s: %s", f.where, amount.Of(f.cases, "case"),
			strings.Join(f.kinds, ", ")))
		if f.cases > 1 {
			f.first = "the first: " + f.first
		}
		printWrapped(w, "    ", f.first)
		printWrapped(w, "    ", f.text)
	}
	if r.Stopped != "" {
		printWrapped(w, "  ", "stopped "+r.Stopped)
	}
}

// print writes the table of a kernel: a row for each kind of case, a column for each
// storage type.
func (k verifiedKernel) print(w io.Writer) {
	supported := 0
	for _, s := range k.Supports {
		if s.OK {
			supported++
		}
	}
	fmt.Fprintf(w, "%s: %d ok, %d failed, %d not run; supports %d of %d kinds of use\n", k.Kernel.Op,
		k.Count(kerneltest.OK), k.Count(kerneltest.Failed), k.Count(kerneltest.Skipped), supported, len(k.Supports))
	var kinds []string
	width := 34
	for _, c := range k.Results {
		if !slices.Contains(kinds, c.Kind) {
			kinds, width = append(kinds, c.Kind), max(width, len(c.Kind))
		}
	}
	fmt.Fprintf(w, "  %-*s %-12s %-12s %s\n", width, "CASE", "FLOAT32", "BFLOAT16", "FLOAT16")
	for _, kind := range kinds {
		line := fmt.Sprintf("  %-*s", width, kind)
		for _, d := range benchDTypes {
			line += fmt.Sprintf(" %-12s", k.cell(kind, d))
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	k.printRemarks(w)
}

// cell sums up the cases of one kind and storage type.
func (k verifiedKernel) cell(kind string, d core.DType) string {
	run, failed, ran, share := 0, 0, false, 0.0
	for _, c := range k.Results {
		if c.Kind != kind || c.Facts.DType != d && c.Facts.DType != core.InvalidDType {
			continue
		}
		ran = true
		if c.Status != kerneltest.Skipped {
			run++
			share = max(share, c.Share)
		}
		if c.Status == kerneltest.Failed {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Sprintf("FAILED %d/%d", failed, run)
	case run > 0 && share > 0:
		return fmt.Sprintf("%d %5.1f%%", run, 100*share)
	case run > 0:
		return fmt.Sprint(run)
	case ran:
		return "not run"
	}
	return ""
}

// printRemarks writes figures, and why special cases were not run or only in part.
func (k verifiedKernel) printRemarks(w io.Writer) {
	said := map[string]bool{}
	for _, c := range k.Results {
		if c.Memory != nil {
			fmt.Fprintf(w, "  memory: %+.0f bytes a call, over %d calls of each pass\n", c.Memory.PerCall(), c.Memory.Calls)
		}
		for _, l := range c.Latency {
			fmt.Fprintf(w, "  latency, one token %s: p50 %s, p99 %s\n", l.Pass, microseconds(l.Median), microseconds(l.P99))
		}
		if c.Reason != "" && !said[c.Kind+c.Reason] && !c.Refused {
			said[c.Kind+c.Reason] = true
			printWrapped(w, "  ", c.Kind+": "+c.Reason)
		}
	}
}

func microseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f us", float64(d.Nanoseconds())/1e3)
}

// printWrapped writes text, which may have several lines, as one paragraph.
func printWrapped(w io.Writer, indent, text string) {
	fmt.Fprintln(w, progress.Wrapped(indent+strings.Join(strings.Fields(text), " "), indent+"  "))
}
