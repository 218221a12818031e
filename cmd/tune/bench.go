package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
)

const benchLong = `Measure what fused kernels are worth on this machine: the same model, weights
and batches, trained with each variant in turn, step by step, in one run. The
first variant is what the others are compared with, round by round; a ratio
below 1 is reported like any other, and a difference is only claimed when the
95% interval of the ratio says so, which takes 6 steps or more. The machine's
own ceilings, the bandwidth of memory and the rate of matrix products, are
measured before and after, and every operation is compared with the one that
limits it. With --config instead of --model, the weights are random.`

// benchFlags are the values of bench's flags.
type benchFlags struct {
	model, config     string
	batch, seq, steps int
	threads           int
	seqGiven          bool
	checkpointing     bool
	kernels           []string
	plugins           pluginFlags

	json, gobench, html string // files to write
}

func (a *app) benchCommand() *Command {
	c := &Command{Name: "bench", Usage: "(--model DIR | --config FILE) [FLAGS]", Short: "measure what the kernels are worth", Long: benchLong,
		Examples: "tune bench --model DIR --batch 8 --seq 512\ntune bench --config config.json --kernels none,auto --html result.html\n" +
			"tune bench --config c.json --kernels none,auto,auto,-npu_fused_rope\n"}
	b := &benchFlags{}
	b.add(c.Group("Flags"))
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		if err := c.noArguments(args); err != nil {
			return err
		}
		if err := b.check(c); err != nil {
			return err
		}
		b.seqGiven = c.Flags.Changed("seq")
		return a.bench(ctx, b)
	}
	return c
}

func (b *benchFlags) add(f *pflag.FlagSet) {
	f.StringVar(&b.model, "model", "", "the model `FOLDER`")
	f.StringVar(&b.config, "config", "", "a config.json `FILE`, for random weights")
	f.IntVar(&b.batch, "batch", 4, "`ROWS` of a batch")
	f.IntVar(&b.seq, "seq", 256, "`TOKENS` of a row; by default no more than the model can take")
	f.IntVar(&b.steps, "steps", 10, "measured `STEPS` of each variant")
	f.IntVar(&b.threads, "threads", 0, "`THREADS` to compute with; 0 for all cores")
	f.BoolVar(&b.checkpointing, "gradient-checkpointing", false, "compute each layer's activations again for the backward pass, as tune train does")
	f.StringSliceVar(&b.kernels, "kernels", []string{"none", "auto"}, "the `VARIANTS`: selections of kernels, separated by commas; -name belongs to the one before it, as in none,auto,-npu_fused_rope; linked:SELECTION takes this program's own kernels, without processes")
	b.plugins.add(f)
	f.StringVar(&b.json, "json", "", "also write the result to this `FILE`; - for standard output, in place of the table")
	f.StringVar(&b.gobench, "gobench", "", "also write each step to this `FILE` in the Go benchmark format, for benchstat; - as above")
	f.StringVar(&b.html, "html", "", "also write a page with charts to this `FILE`, which needs nothing else; - as above")
}

// check validates everything that needs no file.
func (b *benchFlags) check(c *Command) error {
	switch {
	case b.model == "" && b.config == "":
		return c.usagef("neither --model nor --config is given: name a model folder, or a config.json for random weights")
	case b.model != "" && b.config != "":
		return c.usagef("--model and --config exclude each other: give one of them")
	case b.batch < 1:
		return c.usagef("--batch is %d, must be positive", b.batch)
	case b.seq < 2:
		return c.usagef("--seq is %d, must be at least 2: the model predicts each token from those before it", b.seq)
	case b.steps < 1:
		return c.usagef("--steps is %d, must be positive", b.steps)
	case b.threads < 0:
		return c.usagef("--threads is %d, must not be negative", b.threads)
	}
	if err := b.checkOutputs(c); err != nil {
		return err
	}
	b.kernels = joinExclusions(b.kernels)
	for _, k := range b.kernels {
		if _, err := core.ParseSelection(strings.TrimPrefix(k, bench.LinkedPrefix)); err != nil {
			return c.usagef("--kernels: %w", err)
		}
	}
	return nil
}

// joinExclusions joins exclusions to the selection before them.
func joinExclusions(words []string) []string {
	var out []string
	for _, w := range words {
		w = strings.TrimSpace(w)
		if n := len(out); n > 0 && strings.HasPrefix(w, "-") {
			out[n-1] += "," + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func (a *app) bench(ctx context.Context, b *benchFlags) (err error) {
	if err := b.writable(); err != nil {
		return err
	}
	o := bench.Options{ModelDir: b.model, Batch: b.batch, Seq: b.seq, Steps: b.steps, Threads: b.threads, Kernels: b.kernels,
		GradientCheckpointing: b.checkpointing}
	if b.model != "" {
		o.Config, err = readConfig(b.model)
	} else if o.Config, err = os.ReadFile(b.config); err != nil {
		err = fmt.Errorf("--config: %w", err)
	}
	if err != nil {
		return err
	}
	if !b.seqGiven {
		o.Seq = fitSeq(o.Seq, o.Config)
	}
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	o.Memory = mem
	// All variants share the plugins; none of them alone needs any.
	k := kernelFlags{kernels: "none", plugins: b.plugins}
	if slices.ContainsFunc(b.kernels, needsPlugins) {
		k.kernels = "all"
	}
	if o.Registry, err = k.open(ctx, a, transport.Options{Threads: b.threads}); err != nil {
		return err
	}
	if o.Registry != nil {
		defer closing(o.Registry, &err)
	}
	if o.Linked, err = linkedRegistry(); err != nil {
		return err
	}
	o.Progress, o.Measure.Logger = a.benchStep, a.logger()
	o.Ceilings = func(ctx context.Context, long time.Duration) (ceiling.Ceilings, error) {
		return ceiling.MeasureFor(ctx, b.threads, long)
	}
	r, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return a.printBench(r, b.outputs())
}

// benchStep notes each round of a long measurement.
func (a *app) benchStep(p bench.Progress) {
	if p.Round == 0 {
		a.note("warmed up %s", p.Kernels)
		return
	}
	a.note("round %d/%d, %s: %.1f ms", p.Round, p.Rounds, p.Kernels, float64(p.Step.Microseconds())/1000)
}
