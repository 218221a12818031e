package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/parity"
)

const parityLong = `Compare a model with outputs that somebody else's code computed: logits, loss,
the hidden state after every layer, the gradient of every parameter, and the
losses of a few optimizer steps. Each DIR is a model folder with the reference
beside it; docs/parity.md has the format. Use it to check a port of a model, or
a kernel.

With --json there is one object on a line for each DIR; one that could not be
compared has only "case", "kernels", "pass" and "error". A difference that is
infinite or no number is null, as in every --json of tune. The command fails
when any of them does not pass.`

func (a *app) parityCommand() *Command {
	c := &Command{Name: "parity", Usage: "DIR... [FLAGS]", Args: true, Short: "compare a model with reference outputs",
		Long:     parityLong,
		Examples: "tune parity DIR\ntune parity DIR1 DIR2 --kernels all --json\n"}
	var k kernelFlags
	var asJSON bool
	f := c.Group("Flags")
	k.add(f, "none")
	f.BoolVar(&asJSON, "json", false, "write JSON lines")
	return c.finish(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return c.usagef("parity needs at least one folder with a model and its reference")
		}
		if err := k.resolve(c); err != nil {
			return err
		}
		return a.parity(ctx, args, k, asJSON)
	})
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
	defer closing(reg, &err)
	measuring := measure.Options{Logger: a.logger()}
	p := &parityPrinter{json: asJSON, out: a.stdout, table: tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
	var failures []string
	var errs []error
	for _, dir := range dirs {
		r, err := compare(ctx, dir, parity.Options{Kernels: k.kernels, Registry: reg, Measure: measuring, Memory: mem})
		if errors.Is(err, context.Canceled) {
			return err
		}
		if err == nil {
			for _, f := range r.Failures {
				failures = append(failures, fmt.Sprintf("%s: %s", r.Case, f))
			}
			err = p.print(r)
		}
		if err != nil {
			err = k.blame(err)
			errs = append(errs, err, p.printError(dir, k.kernels, err))
		}
	}
	p.table.Flush()
	for _, f := range failures {
		a.note("%s", f)
	}
	if err := errors.Join(errs...); err != nil || failures == nil {
		return err
	}
	return errReported
}

// compare is parity.Run for a folder that may be none with a reference.
func compare(ctx context.Context, dir string, o parity.Options) (*parity.Result, error) {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return nil, plainfile.Explain(err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file; name the folder that it is in", dir)
	}
	const reference = "golden_f64.safetensors"
	if _, err := os.Stat(filepath.Join(dir, reference)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s; docs/parity.md describes the folder", dir, reference)
	}
	return parity.Run(ctx, dir, o)
}

// parityPrinter writes results, as rows of a table or as lines of JSON.
type parityPrinter struct {
	json  bool
	out   io.Writer
	table *tabwriter.Writer
	rows  int
}

// notCompared is the JSON line for a folder without a result.
type notCompared struct {
	Case    string `json:"case"`
	Kernels string `json:"kernels"`
	Pass    bool   `json:"pass"`
	Error   string `json:"error"`
}

// printError writes what there is to say about a folder without a result. A table has no
// row for it.
func (p *parityPrinter) printError(dir, kernels string, cause error) error {
	if !p.json {
		return nil
	}
	return plainjson.Encode(p.out, notCompared{Case: filepath.Base(filepath.Clean(dir)), Kernels: kernels,
		Error: cause.Error()}, "")
}

func (p *parityPrinter) print(r *parity.Result) error {
	if p.json {
		return plainjson.Encode(p.out, r, "")
	}
	if p.rows++; p.rows == 1 {
		fmt.Fprintln(p.table, "CASE\tKERNELS\tLOSS\tLOGITS\tHIDDEN\tGRAD\tCURVE\t")
	}
	applied := 0
	for _, n := range r.KernelsApplied {
		applied += n
	}
	verdict := "pass"
	if !r.Pass {
		verdict = "FAIL"
	}
	_, err := fmt.Fprintf(p.table, "%s\t%s (%d sites)\t%.1e\t%.1e\t%.1e\t%.1e\t%.1e\t%s\n", r.Case,
		cmp.Or(r.Kernels, "none"), applied,
		r.LossAbs, r.LogitsAbs, r.HiddenRel, r.GradWorstRel, r.CurveLossMaxAbs, verdict)
	return err
}
