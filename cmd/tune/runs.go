package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/journal"
)

const runsLong = `List the training runs in folders, the newest first: what was trained, how far
it has come, its last loss, and its best held-out loss after a step. A run is a
folder with a journal; the folders that are named are looked at, and those in
them, three deep. One that was resumed is one run, with its number of sessions.

A run that has neither ended nor failed goes on, or was killed: "tune train
--resume --out RUN" goes on with one that has checkpoints.`

// runEntry is a line of the list.
type runEntry struct {
	Run        string    `json:"run"`
	Began      time.Time `json:"began"`
	Model      string    `json:"model"`
	Parameters int       `json:"parameters"`
	Step       int       `json:"step"`
	Steps      int       `json:"steps"`
	State      string    `json:"state"` // ended, interrupted, failed, open or unreadable
	Loss       *float64  `json:"loss,omitempty"`
	Best       *float64  `json:"best_eval_loss,omitempty"`
	Sessions   int       `json:"sessions"`
	Error      string    `json:"error,omitempty"` // of a journal that cannot be read
}

func (a *app) runsCommand() *Command {
	c := &Command{Name: "runs", Usage: "[FOLDER ...] [FLAGS]", Args: true, Short: "list the training runs in a folder",
		Long: runsLong, Examples: "tune runs\ntune runs ~/models --json\n"}
	asJSON := c.Group("Flags").Bool("json", false, "write a JSON array")
	return c.finish(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		found := []runEntry{}
		for _, dir := range args {
			if err := findRuns(ctx, dir, &found); err != nil {
				return err
			}
		}
		slices.SortStableFunc(found, func(a, b runEntry) int { return b.Began.Compare(a.Began) })
		if *asJSON {
			return plainjson.Encode(a.stdout, found, "")
		}
		if len(found) == 0 {
			a.note("no run was found: a run is a folder with %s", journal.File)
			return nil
		}
		return a.printRuns(found)
	})
}

// findRuns adds the runs at and below a folder. What cannot be looked into is passed over, but not the folder itself.
func findRuns(ctx context.Context, root string, found *[]runEntry) error {
	const deepest = 3
	if _, err := os.Stat(root); err != nil {
		return plainfile.Explain(err)
	}
	within := root + string(filepath.Separator) // what a link leads to, where it is one
	return filepath.WalkDir(within, func(path string, d fs.DirEntry, err error) error {
		if err := cmp.Or(ctx.Err(), err); err != nil {
			if path == within || ctx.Err() != nil {
				return err
			}
			return fs.SkipDir
		}
		if !d.IsDir() {
			return nil
		}
		path = filepath.Clean(path)
		run, err := journal.Read(path)
		switch {
		case err == nil:
			*found = append(*found, entryOf(path, run))
			return fs.SkipDir // what is in it is of this run
		case !errors.Is(err, journal.ErrMissing):
			*found = append(*found, runEntry{Run: path, State: "unreadable", Error: err.Error()})
		}
		if below, err := filepath.Rel(root, path); err != nil || depth(below) >= deepest {
			return fs.SkipDir
		}
		return nil
	})
}

// depth is how many folders a relative path goes down.
func depth(path string) int {
	if path == "." {
		return 0
	}
	return 1 + depth(filepath.Dir(path))
}

func entryOf(path string, r *journal.Run) runEntry {
	e := runEntry{Run: path, Began: r.Began, Model: r.Start.Model, Parameters: r.Start.Parameters, Steps: r.Start.Steps,
		State: r.State(), Sessions: r.Sessions}
	if n := len(r.Steps); n > 0 {
		e.Step, e.Loss = r.Steps[n-1].Step, number(r.Steps[n-1].Loss)
	}
	if best, ok := r.Best(); ok {
		e.Best = number(best.Loss)
	}
	if e.State == journal.Failed {
		e.Error = r.End.Error
	}
	return e
}

// number is nil for what JSON has not.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (a *app) printRuns(all []runEntry) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tmodel\tbegan\tsteps\tloss\theld out\t")
	for _, e := range all {
		if e.State == "unreadable" {
			fmt.Fprintf(w, "%s\t\t\t\t\t\tunreadable\n", short(e.Run))
			a.note("%s", e.Error)
			continue
		}
		var state []string
		if e.State != journal.Ended {
			state = append(state, e.State)
		}
		if e.Sessions > 1 {
			state = append(state, amount.Of(e.Sessions, "session"))
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%d/%d\t%s\t%s\t%s\n", short(e.Run), e.Model, amount.Count(e.Parameters),
			e.Began.Local().Format("2006-01-02 15:04"), e.Step, e.Steps, lossText(e.Loss), lossText(e.Best),
			strings.Join(state, ", "))
	}
	return w.Flush()
}

// lossText is a loss with four digits, - for none.
func lossText(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *x)
}
