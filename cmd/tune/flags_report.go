package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/report"
	"github.com/seed98097648/tune/trainer/tensorboard"
)

// tokenEnv is where --serve-token may come from, unseen by who lists processes.
const tokenEnv = "TUNE_SERVE_TOKEN"

// byName is the value of --tensorboard when none is given.
const byName = "runs/NAME"

// viewFlags say how a run is watched, besides its own output.
type viewFlags struct {
	tensorboard, serve, token string

	server  *report.Server // nil without --serve
	live    *report.Live
	closers []io.Closer
}

func (v *viewFlags) add(f *pflag.FlagSet) {
	f.StringVar(&v.tensorboard, "tensorboard", "", "write losses, learning rate, gradient norm and speed for "+
		"TensorBoard too, into runs/NAME, where NAME is that of the output folder, or into `DIR`, given as "+
		"--tensorboard=DIR")
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
		if v.token != "" {
			return c.usagef("--serve-token is given without --serve: say where to show the run")
		}
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

// attach makes the views follow a job.
func (v *viewFlags) attach(job *trainer.Job) error {
	if v.live != nil {
		job.Journal = append(job.Journal, v.live)
	}
	if v.tensorboard == "" {
		return nil
	}
	dir := v.tensorboard
	if dir == byName {
		dir = filepath.Join("runs", filepath.Base(filepath.Clean(job.Config.Out)))
	}
	w, err := tensorboard.New(dir, time.Now())
	if err != nil {
		return err
	}
	job.Journal = append(job.Journal, w)
	v.closers = append(v.closers, w)
	return nil
}

// Close ends all views.
func (v *viewFlags) Close() error {
	var errs []error
	for _, c := range v.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
