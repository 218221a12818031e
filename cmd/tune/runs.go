package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/progress"
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
	table := [][]string{{"run", "model", "began", "steps", "loss", "held out", ""}}
	for _, e := range all {
		if e.State == "unreadable" {
			table = append(table, []string{short(e.Run), "", "", "", "", "", e.State})
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
		table = append(table, []string{short(e.Run), e.Model + " " + amount.Count(e.Parameters),
			e.Began.Local().Format("2006-01-02 15:04"), fmt.Sprintf("%d/%d", e.Step, e.Steps), lossText(e.Loss),
			lossText(e.Best), strings.Join(state, ", ")})
	}
	return printAligned(a.stdout, table)
}

// printAligned writes rows of as many cells each, one below the other, also where letters are as wide as two, or none.
func printAligned(w io.Writer, table [][]string) error {
	wide := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			wide[i] = max(wide[i], progress.Wide(cell))
		}
	}
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", wide[i]-progress.Wide(cell)+2))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// lossText is a loss with four digits, - for none.
func lossText(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *x)
}
