package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
"tune train --serve" shows the same page while it changes.`

func (a *app) reportCommand() *Command {
	c := &Command{Name: "report", Usage: "RUN_DIR [FLAGS]", Args: true,
		Short: "make a page with charts of a training run", Long: reportLong,
		Examples: "tune report tune-out\ntune report tune-out --out run.html\ntune report tune-out --json\n"}
	f := c.Group("Flags")
	out := f.String("out", "", "the `FILE` to write; - for standard output; by default report.html in the run's folder")
	asJSON := f.Bool("json", false, "write what the journal comes to as JSON to standard output, instead of a page")
	return c.finish(func(_ context.Context, args []string) error {
		if len(args) != 1 {
			return c.usagef("report takes one folder: that of a training run, its --out")
		}
		if *asJSON && *out != "" {
			return c.usagef("--json writes to standard output, and --out names a file for the page: choose one of them")
		}
		return a.reportOn(args[0], *out, *asJSON)
	})
}

func (a *app) reportOn(path, out string, asJSON bool) error {
	run, err := journal.Read(path)
	if left := unfinished(filepath.Clean(path)); errors.Is(err, journal.ErrMissing) && left != nil {
		return fmt.Errorf("%w; a run that was killed, or goes on, has it in %s", err, strings.Join(left, ", "))
	}
	if err != nil {
		return err
	}
	if asJSON {
		return a.writeJSON(run)
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	page, err := report.HTML(run, dir)
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
