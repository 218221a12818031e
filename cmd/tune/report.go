package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/report"
)

const reportLong = `Make a page of a training run from the journal in its folder: losses, learning
rate, gradient norm, speed and memory over the steps, which kernel each site
got, how long each operation took, restarts and fall-backs of plugins,
configuration and environment. The page is one file that needs nothing else.

It works while the run goes on, and after a run that was killed: what that had
done without checkpoints is in the folder NAME.partial-... beside its output.
"tune train --serve" shows the same page while it changes.

Several runs are compared on one page, report.html in this folder: losses over
one another, what came of each, and the settings that differ. With
--out FILE.svg their held-out losses become one picture.`

func (a *app) reportCommand() *Command {
	c := &Command{Name: "report", Usage: "RUN_DIR ... [FLAGS]", Args: true,
		Short: "make a page with charts of a training run, or of several", Long: reportLong,
		Examples: "tune report tune-out\ntune report tune-out --out run.html\ntune report tune-out --json\n" +
			"tune report first second --out both.html\ntune report first second --out losses.svg\n"}
	f := c.Group("Flags")
	out := f.String("out", "", "the `FILE` to write; - for standard output; by default report.html in the run's "+
		"folder, and of several runs in this one")
	asJSON := f.Bool("json", false, "write what the journal comes to as JSON to standard output, instead of a page; an "+
		"array of several")
	return c.finish(func(_ context.Context, args []string) error {
		switch {
		case len(args) == 0:
			return c.usagef("report takes a folder: that of a training run, its --out; or several, which it compares")
		case len(args) > report.MostRuns && !*asJSON && !isPicture(*out):
			return c.usagef("a page compares %d runs at most, which have colours of their own; %d are named; give fewer, or "+
				"make a picture with --out FILE.svg", report.MostRuns, len(args))
		case *asJSON && *out != "":
			return c.usagef("--json writes to standard output, and --out names a file for the page: choose one of them")
		}
		runs, err := runsAt(args)
		if err != nil {
			return err
		}
		if *asJSON && len(runs) == 1 {
			return a.writeJSON(runs[0].Run)
		}
		if *asJSON {
			return a.writeJSON(runs)
		}
		return a.reportOn(args, runs, *out)
	})
}

// runsAt reads the journals, each under the end of its path that no other has.
func runsAt(paths []string) ([]report.Named, error) {
	names, err := lastNames(paths)
	if err != nil {
		return nil, err
	}
	var all []report.Named
	for i, path := range paths {
		run, err := journal.Read(path)
		if left := unfinished(filepath.Clean(path)); errors.Is(err, journal.ErrMissing) && left != nil {
			return nil, fmt.Errorf("%w; a run that was killed, or goes on, has it in %s", err, strings.Join(left, ", "))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, report.Named{Name: names[i], Run: run})
	}
	return all, nil
}

// lastNames returns of each path as many of its last names as tell it from the others.
func lastNames(paths []string) ([]string, error) {
	var parts [][]string
	for _, path := range paths {
		dir, err := runFolder(path)
		if err != nil {
			return nil, err
		}
		names := strings.Split(strings.Trim(filepath.ToSlash(dir), "/"), "/")
		if slices.ContainsFunc(parts, func(other []string) bool { return slices.Equal(other, names) }) {
			return nil, fmt.Errorf("%s is named twice: leave one out", path)
		}
		parts = append(parts, names)
	}
	names, length := make([]string, len(parts)), make([]int, len(parts)) // beyond the last name
	for {
		count := map[string]int{}
		for i, p := range parts {
			names[i] = strings.Join(p[max(0, len(p)-1-length[i]):], "/")
			count[names[i]]++
		}
		if len(count) == len(names) {
			return names, nil
		}
		for i, name := range names {
			if count[name] > 1 {
				length[i]++
			}
		}
	}
}

// runFolder returns the folder of a run, of which a path may name the journal.
func runFolder(path string) (string, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	return dir, nil
}

// isPicture tells whether what is written there is to be a picture.
func isPicture(out string) bool { return strings.EqualFold(filepath.Ext(out), ".svg") }

// reportOn writes the page of a run, or of several.
func (a *app) reportOn(paths []string, runs []report.Named, out string) error {
	dir, err := runFolder(paths[0])
	if err != nil {
		return err
	}
	var page []byte
	switch {
	case isPicture(out):
		page, err = report.Picture(runs)
	case len(runs) == 1:
		page, err = report.HTML(runs[0].Run, dir)
	default:
		dir = "."
		page, err = report.Compare(runs)
	}
	if err != nil {
		return err
	}
	if out == "-" {
		_, err := a.stdout.Write(page)
		return err
	}
	if out == "" {
		out = filepath.Join(dir, "report.html")
	}
	if err := writeWhole(out, page); err != nil {
		return fmt.Errorf("write the page: %w; name another file with --out", err)
	}
	_, err = fmt.Fprintf(a.stdout, "wrote %s\n", short(out))
	return err
}
