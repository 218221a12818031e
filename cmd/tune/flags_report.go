package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/report"
	"github.com/seed98097648/tune/trainer/tensorboard"
	"github.com/seed98097648/tune/trainer/trackio"
	"github.com/seed98097648/tune/trainer/wandb"
)

// tokenEnv is where --serve-token may come from, unseen by who lists processes.
const tokenEnv = "TUNE_SERVE_TOKEN"

// byName is the value of --tensorboard when none is given.
const byName = "runs/NAME"

// reporter is a form in which a run is told to another program.
type reporter struct {
	dir string // where, unless a folder is given
	// open starts it; nil where there is nothing to do.
	open func(a *app, dir, name string) (watcher, error)
}

type watcher interface {
	journal.Sink
	io.Closer
}

// reporters are the words of --report-to.
var reporters = map[string]reporter{
	"jsonl": {}, // the journal, which every run has
	"none":  {},
	"tensorboard": {"runs", func(_ *app, dir, name string) (watcher, error) {
		return tensorboard.New(filepath.Join(dir, name), time.Now())
	}},
	"trackio": {"trackio", func(_ *app, dir, name string) (watcher, error) { return trackio.New(dir, name) }},
	"wandb-offline": {"wandb", func(a *app, dir, name string) (watcher, error) {
		w, err := wandb.New(dir, name, time.Now())
		if err == nil {
			a.note("when the run has ended, wandb sync %s uploads it", short(w.Dir))
		}
		return w, err
	}},
}

// viewFlags say how a run is watched, besides its own output.
type viewFlags struct {
	to                        []string
	tensorboard, serve, token string

	server  *report.Server // nil without --serve
	live    *report.Live
	closers []io.Closer
}

func (v *viewFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&v.to, "report-to", nil, "write the run for other programs too, in the forms that `NAMES` say: "+
		"tensorboard, trackio (a file for its import_csv), wandb-offline (for wandb sync), jsonl (the journal, which is "+
		"always written); each may have a folder, as in wandb-offline=DIR")
	f.StringVar(&v.tensorboard, "tensorboard", "", "write losses, learning rate, gradient norm and speed for "+
		"TensorBoard too, into runs/NAME, where NAME is that of the output folder, or into `DIR`, given as "+
		"--tensorboard=DIR: --report-to tensorboard, with the whole name of the folder")
	f.Lookup("tensorboard").NoOptDefVal = byName
	f.StringVar(&v.serve, "serve", "", "show the run in browsers while it goes on, at `ADDR`: a port, for this "+
		"machine only, or HOST:PORT")
	f.StringVar(&v.token, "serve-token", "", "`TOKEN` that browsers need, without which --serve takes no address that "+
		"other machines can reach; $"+tokenEnv+" sets it too")
}

// open starts what the flags ask for, before anything that takes long. The caller closes
// the flags.
func (v *viewFlags) open(ctx context.Context, a *app, c *Command, out string) error {
	if v.serve == "" {
		return nil
	}
	v.live = report.NewLive(out)
	var err error
	v.server, err = report.Listen(ctx, v.serve, cmp.Or(v.token, os.Getenv(tokenEnv)), v.live)
	if errors.Is(err, report.ErrNeedsToken) {
		return c.usagef("--serve: %w: add --serve-token TOKEN, or give the port alone to show the run on this machine only",
			err)
	}
	if err != nil {
		return c.usagef("--serve: %w", err)
	}
	v.closers = append(v.closers, v.server)
	a.note("the run can be watched at %s", v.server.URL)
	return nil
}

// check refuses what can neither be reported to nor watched.
func (v *viewFlags) check(c *Command) error {
	if err := v.checkReporters(); err != nil {
		return c.usagef("--report-to: %w", err)
	}
	if v.serve == "" && v.token != "" {
		return c.usagef("--serve-token is given without --serve: say where to show the run")
	}
	return nil
}

func (v *viewFlags) checkReporters() error {
	seen := map[string]bool{"tensorboard": v.tensorboard != ""}
	for _, to := range v.to {
		name, dir, named := strings.Cut(to, "=")
		r, ok := reporters[name]
		switch {
		case !ok:
			return fmt.Errorf("%q is not known; known: %s", name, strings.Join(slices.Sorted(maps.Keys(reporters)), ", "))
		case seen[name]:
			return fmt.Errorf("%s is given twice; --tensorboard counts, too", name)
		case named && (dir == "" || r.open == nil):
			return fmt.Errorf("%q: a folder can be named for tensorboard, trackio and wandb-offline, as in trackio=DIR", to)
		}
		seen[name] = true
	}
	return nil
}

// attach makes the views follow a job.
func (v *viewFlags) attach(a *app, job *trainer.Job) error {
	if v.live != nil {
		job.Journal = append(job.Journal, v.live)
	}
	name := filepath.Base(filepath.Clean(job.Config.Out))
	all := slices.Clone(v.to)
	switch {
	case v.tensorboard == byName:
		all = append(all, "tensorboard")
	case v.tensorboard != "":
		w, err := tensorboard.New(v.tensorboard, time.Now())
		if err != nil {
			return err
		}
		v.follow(job, w)
	}
	for _, to := range all {
		form, dir, _ := strings.Cut(to, "=")
		r := reporters[form]
		if r.open == nil {
			continue
		}
		w, err := r.open(a, cmp.Or(dir, r.dir), name)
		if err != nil {
			return err
		}
		v.follow(job, w)
	}
	return nil
}

func (v *viewFlags) follow(job *trainer.Job, w watcher) {
	job.Journal = append(job.Journal, w)
	v.closers = append(v.closers, w)
}

// close ends all views. One that cannot be written is a warning, as it is in the middle of a run, which has not failed
// for that.
func (v *viewFlags) close(a *app) {
	for _, c := range v.closers {
		if err := c.Close(); err != nil {
			a.note("warning: %v", err)
		}
	}
}
