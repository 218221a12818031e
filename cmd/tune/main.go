// Command tune fine-tunes language models on the machine at hand, with fused kernels
// from plugins. "tune help" tells what it can do; docs/cli.md has the same text.
//
// Each verb is one file here and one line in the table below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/plugins/builtin"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/progress"
)

//go:generate go run . help --markdown ../../docs/cli.md

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell reports a program that SIGINT ended
)

func main() {
	builtin.Serve()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// app is what the verbs share: where they write, and how they are interrupted.
type app struct {
	stdout   io.Writer
	stderr   io.Writer         // the printer, so that notes and the bar do not mix
	progress *progress.Printer // for train
	abort    <-chan struct{}   // closed by the second interrupt

	// of a training run: its newest checkpoint, if there is one, and what takes its flags again
	checkpoint string
	again      again
	waiting    string      // what was said last about a model that cannot be saved
	saves      bool        // whether the command has something to save
	told       atomic.Bool // that it was interrupted

	launch distributed.Launch // of the ranks that train together
	world  *distributed.World // which are these; nil for none
	joined bool               // or tried to
}

// commands is the table of verbs, in the order of the help.
func (a *app) commands() []*Command {
	return []*Command{
		a.trainCommand(),
		a.initCommand(),
		a.mergeCommand(),
		a.quantizeCommand(),
		a.exportCommand(),
		a.generateCommand(),
		a.serveCommand(),
		a.evalCommand(),
		a.dataPreviewCommand(),
		a.reportCommand(),
		a.runsCommand(),
		a.planCommand(),
		a.kernelsNewCommand(),
		a.kernelsListCommand(),
		a.kernelsInspectCommand(),
		a.kernelsPlanCommand(),
		a.kernelsVerifyCommand(),
		a.kernelsLockCommand(),
		a.kernelsBenchCommand(),
		a.parityCommand(),
		a.benchCommand(),
		a.versionCommand(),
	}
}

// run is main with its surroundings as arguments. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	out := &standardOut{Writer: stdout}
	p := progress.New(out, stderr)
	ctx, abort, stop := interrupts()
	defer stop()
	a := &app{stdout: out, stderr: p, progress: p, abort: abort}
	defer a.tellOfInterrupt(ctx, time.Second)()
	defer a.abortAll()
	return a.leave(a.written(out, a.dispatch(ctx, args)))
}

// report prints an error, one line for each cause, and chooses the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	switch {
	case errors.Is(err, errStopped):
		return exitInterrupted
	case errors.Is(err, context.Canceled) && a.checkpoint != "":
		fmt.Fprintf(a.stderr, "tune: interrupted; go on with: %s\n", a.resumeCommand())
		return exitInterrupted
	case errors.Is(err, context.Canceled):
		what := ""
		if a.saves {
			what = "; nothing was saved"
		}
		fmt.Fprintf(a.stderr, "tune: interrupted%s\n", what)
		return exitInterrupted
	case errors.Is(err, errReported):
		return exitFailed
	}
	for line := range strings.Lines(a.named(flagged(plainfile.ExplainFiles(err).Error()))) {
		fmt.Fprintln(a.stderr, "tune:", printable(strings.TrimSpace(line)))
	}
	if a.checkpoint != "" {
		fmt.Fprintf(a.stderr, "tune: the newest checkpoint is %s\n", a.checkpoint)
	}
	usage, misused := errors.AsType[*usageError](err)
	if misused && usage.help != "" {
		fmt.Fprintf(a.stderr, "Run %q for help.\n", usage.help)
	}
	if misused || errors.Is(err, core.ErrUnknownKernel) {
		return exitUsage
	}
	return exitFailed
}

// errStopped is for an interrupt that the output already tells of.
var errStopped = errors.New("interrupted, as reported")

// errReported is for a failure that the output already tells.
var errReported = errors.New("failed, as reported")
