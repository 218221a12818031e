// Growth measures how the time and the memory of a training step grow with one size of
// the model or of the batch, with all fused kernels, and compares the growth with what
// the arithmetic predicts. It prints a table of each sweep in Markdown:
//
//	go build -o bin/plugins/ ./plugins/npu_...
//	go run ./internal/growth -plugin-dir bin/plugins
//
// A term of higher order that the design does not have, such as memory for all pairs of
// tokens, would show as a slope above the predicted one. Nothing else may run meanwhile.
// It needs Linux, which tells how much memory processes have in use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
)

// settings are the values of the flags.
type settings struct {
	pluginDir      string
	steps, threads int
	points         int // the most of each sweep, smallest first; 0 for all
}

func main() {
	var s settings
	flag.StringVar(&s.pluginDir, "plugin-dir", filepath.FromSlash("bin/plugins"), "the `folder` of the plugins")
	flag.IntVar(&s.steps, "steps", 5, "measured `steps` of each size")
	flag.IntVar(&s.threads, "threads", 0, "`threads` to compute with; 0 for all cores")
	flag.IntVar(&s.points, "points", 0, "measure only the smallest `sizes` of each sweep, at most so many; 0 for all")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// run makes the sweeps. Tables go to out, notes of each size to notes.
func run(ctx context.Context, s settings, out, notes io.Writer) error {
	limits, err := ceiling.Measure(ctx, s.threads)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d threads: %.1f GB/s, %.0f GFLOP/s; measured steps of each size: %d\n", limits.Threads,
		limits.Bandwidth/1e9, limits.Products/1e9, s.steps)
	for _, w := range sweeps(s.points) {
		points := make([]point, len(w.sizes))
		for i, n := range w.sizes {
			if points[i], err = s.measure(ctx, w, n, limits); err != nil {
				return fmt.Errorf("%s %d: %w", w.name, n, err)
			}
			fmt.Fprintf(notes, "growth: %s %d: %.1f ms\n", w.name, n, points[i].ms)
		}
		r, err := newReport(w, points)
		if err != nil {
			return err
		}
		fmt.Fprint(out, r.table())
	}
	return nil
}

// measure trains the model of one size for a few steps. Every size gets processes of its
// own, so that none starts with memory that another has left in them.
func (s settings) measure(ctx context.Context, w sweep, n int, limits ceiling.Ceilings) (p point, err error) {
	mem, err := transport.NewMemory("growth", 0)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	reg, err := core.ScanAllKernels(ctx, []string{s.pluginDir}, transport.Options{Threads: s.threads}.Open)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, reg.Close()) }()

	o := w.options(n)
	o.Steps, o.Threads, o.Kernels, o.Registry, o.Memory = s.steps, s.threads, []string{"all"}, reg, mem
	r, err := bench.Run(ctx, o)
	if err != nil {
		return p, err
	}
	return newPoint(n, r.Runs[0], limits)
}
