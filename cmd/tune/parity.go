package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/parity"
)

const parityLong = `Compare a model with outputs that somebody else's code computed: logits, loss,
the hidden state after every layer, the gradient of every parameter, and the
losses of a few optimizer steps. Each DIR is a model folder with the reference
beside it; docs/parity.md has the format. Use it to check a port of a model, or
a kernel.

With --json there is one object on a line for each DIR. The command fails when
any of them does not pass.`

func (a *app) parityCommand() *Command {
	c := &Command{Name: "parity", Usage: "DIR... [FLAGS]", Short: "compare a model with reference outputs", Long: parityLong,
		Examples: "tune parity DIR\ntune parity DIR1 DIR2 --kernels all --json\n"}
	var k kernelFlags
	var asJSON bool
	f := c.Group("Flags")
	k.add(f, "none")
	f.BoolVar(&asJSON, "json", false, "write JSON lines")
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return c.usagef("parity needs at least one folder with a model and its reference")
		}
		if err := k.resolve(c); err != nil {
			return err
		}
		return a.parity(ctx, args, k, asJSON)
	}
	return c
}

func (a *app) parity(ctx context.Context, dirs []string, k kernelFlags, asJSON bool) (err error) {
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	reg, err := k.open(ctx, a, transport.Options{Strict: true})
	if err != nil {
		return err
	}
	if reg != nil {
		defer closing(reg, &err)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "CASE\tKERNELS\tLOSS\tLOGITS\tHIDDEN\tGRAD\tCURVE\t")
	}
	var failures []string
	var errs []error
	for _, dir := range dirs {
		r, err := parity.Run(ctx, dir, parity.Options{Kernels: k.kernels, Registry: reg, Memory: mem})
		if errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnknownKernel) {
			return err
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range r.Failures {
			failures = append(failures, fmt.Sprintf("%s: %s", r.Case, f))
		}
		if asJSON {
			err = json.NewEncoder(a.stdout).Encode(r)
		} else {
			err = printParity(table, r)
		}
		if err != nil { // JSON has no NaN
			errs = append(errs, fmt.Errorf("%s: %w", r.Case, err))
		}
	}
	table.Flush()
	for _, f := range failures {
		a.note("%s", f)
	}
	if errs == nil && failures != nil {
		return errReported
	}
	return errors.Join(errs...)
}

func printParity(w io.Writer, r *parity.Result) error {
	applied := 0
	for _, n := range r.KernelsApplied {
		applied += n
	}
	verdict := "pass"
	if !r.Pass {
		verdict = "FAIL"
	}
	_, err := fmt.Fprintf(w, "%s\t%s (%d sites)\t%.1e\t%.1e\t%.1e\t%.1e\t%.1e\t%s\n", r.Case, cmp.Or(r.Kernels, "none"), applied,
		r.LossAbs, r.LogitsAbs, r.HiddenRel, r.GradWorstRel, r.CurveLossMaxAbs, verdict)
	return err
}
