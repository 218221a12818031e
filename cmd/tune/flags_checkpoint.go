package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// newest is the value of --resume when none is given.
const newest = "newest"

func (t *trainFlags) addCheckpoints(f *pflag.FlagSet) {
	c := &t.config.Checkpoints
	f.IntVar(&c.SaveEvery, "save-every", c.SaveEvery, "save a checkpoint in the output folder after every so many "+
		"`STEPS`, after the best evaluation, at the end and when interrupted; 0 for none")
	f.IntVar(&c.Keep, "keep", c.Keep, "newest `CHECKPOINTS` that stay, besides the one with the best evaluation; 0 "+
		"for all")
	f.IntVar(&c.EvalEvery, "eval-every", c.EvalEvery, "evaluate after every so many `STEPS`, and at both ends; 0 for "+
		"every quarter of a run of 40 steps or more")
	f.BoolVar(&c.NoEval, "no-eval", c.NoEval, "evaluate nothing, whatever is held out")
	f.BoolVar(&c.LoadBest, "load-best-at-end", c.LoadBest, "save the model of the best evaluation instead of the last; "+
		"without checkpoints, it is kept in memory meanwhile")
	f.Float64Var(&c.SaveEpochs, "save-epochs", c.SaveEpochs, "save a checkpoint after every so many `EPOCHS`, or "+
		"parts of one, instead of steps; 0 for as --save-every says")
	f.Float64Var(&c.EvalEpochs, "eval-epochs", c.EvalEpochs, "evaluate after every so many `EPOCHS`, or parts of "+
		"one, instead of steps; 0 for as --eval-every says")
	f.IntVar(&c.Patience, "early-stopping", c.Patience, "end the run after so many `EVALUATIONS`, one after "+
		"another, without a better one; 0 for never")
	f.Float64Var(&c.Threshold, "early-stopping-threshold", c.Threshold, "by how much `LOSS`, or score, an evaluation "+
		"has to be better than the best to count as better for --early-stopping")
	m := &t.config.Metric
	addMetric(f, &m.Name, "every evaluation")
	f.StringVar(&m.Best, "best-metric", m.Best, "what the best evaluation is the best by, for --early-stopping and "+
		"--load-best-at-end: `NAME` of --metric, or loss, which it is by default")
	addNewTokens(f, &m.MaxNewTokens)
	f.StringVar(&t.from, "resume", "", "go on from the newest checkpoint of the output folder, or from the one in "+
		"`DIR`, given as --resume=DIR; other flags need not be repeated")
	f.Lookup("resume").NoOptDefVal = newest
}

// adopt finds the checkpoint to go on from, if there is to be one, and takes every flag
// that is not given from it.
func (t *trainFlags) adopt(c *Command) error {
	if t.from == "" {
		return nil
	}
	path, out := t.from, t.config.Out
	if path == newest {
		if !t.changed("out") {
			out = latestOut(out)
		}
		path = out
	}
	var err error
	if t.resume, err = trainer.OpenCheckpoint(path); err != nil {
		return err
	}
	if !t.changed("out") && t.from != newest {
		out = filepath.Dir(filepath.Clean(t.resume.Dir))
	}
	given := givenFlags(c)
	t.config = t.resume.State.Config
	t.config.LoRA.Start = t.resume.Dir
	if t.kernels.fixed = true; !t.changed("kernels") {
		t.kernels.kernels, t.kernels.source = t.config.Kernels, "the checkpoint's kernels"
	}
	for f, set := range given {
		if err := set(); err != nil {
			return c.usagef("--%s: %w", f, err)
		}
	}
	for _, name := range t.file.overridden {
		f := c.Flags.Lookup(name)
		if err := f.Value.Set(f.DefValue); err != nil {
			return c.usagef("--%s: %w", name, err)
		}
	}
	t.config.Out = out
	t.changed = func(string) bool { return true } // nothing is left to be chosen
	return nil
}

// moved adds to an error of a path that leads nowhere whose path it may be: nobody has given it in this folder.
func (t *trainFlags) moved(err error) error {
	_, absent := os.Stat(t.config.Model)
	if t.resume == nil || t.config.Model == "" || !errors.Is(cmp.Or(absent, err), fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w; a path that is not given is the checkpoint's, as seen from the folder where its run began: "+
		"say where --model, --data and the like are now", err)
}

// chooseOut claims the folder to save. A run that goes on must be the same run, and the one
// before must be over.
func (t *trainFlags) chooseOut(a *app, c *Command) (string, *checkpoint.Claim, error) {
	if t.resume == nil {
		return a.chooseOut(t.config.Out, t.changed("out"))
	}
	if err := t.checkOut(c); err != nil {
		return "", nil, err
	}
	claim, err := checkpoint.NewClaim(t.config.Out)
	if err != nil {
		return "", nil, fmt.Errorf("--out: %w", err)
	}
	return t.config.Out, claim, nil
}

// checkOut reports why a run could not be saved in its folder, as far as is known without claiming it.
func (t *trainFlags) checkOut(c *Command) error {
	switch {
	case t.resume != nil:
		if err := t.resume.Check(t.config); err != nil {
			return c.usagef("%w", err)
		}
	case t.changed("out"):
		return vacant(t.config.Out)
	}
	return nil
}

// givenFlags returns what sets each flag that is given to its value once more, for when
// the variables behind the flags have been overwritten.
func givenFlags(c *Command) map[string]func() error {
	again := map[string]func() error{}
	c.Flags.Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values := list.GetSlice()
			again[f.Name] = func() error { return list.Replace(values) }
			return
		}
		value := f.Value.String()
		again[f.Name] = func() error { return f.Value.Set(value) }
	})
	return again
}

// latestOut returns the last of tune-out, tune-out-2, ... that has checkpoints, or else the
// last that exists: where the run went whose output folder nobody has named. A model that
// could not be saved in its folder is beside it, without the checkpoints.
func latestOut(first string) string {
	latest, resumable := first, ""
	for i, next := 2, first; ; i++ {
		if _, err := os.Stat(next); err != nil {
			return cmp.Or(resumable, latest)
		}
		if latest = next; hasCheckpoints(next) {
			resumable = next
		}
		next = fmt.Sprintf("%s-%d", first, i)
	}
}

func hasCheckpoints(dir string) bool {
	steps, err := checkpoint.Steps(dir)
	return err == nil && len(steps) > 0
}
