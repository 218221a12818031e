package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/bench"
)

const benchLong = `Measure what fused kernels are worth on this machine: the same model, weights
and batches, trained with each variant in turn, step by step, in one run. The
first variant is what the others are compared with, round by round; a ratio
below 1 is reported like any other. With --config instead of --model, the
weights are random.`

// benchFlags are the values of bench's flags.
type benchFlags struct {
	model, config     string
	batch, seq, steps int
	threads           int
	seqGiven          bool
	kernels           []string
	dir, json         string
}

func (a *app) benchCommand() *Command {
	c := &Command{Name: "bench", Usage: "(--model DIR | --config FILE) [FLAGS]", Short: "measure what the kernels are worth", Long: benchLong,
		Examples: "tune bench --model DIR --batch 8 --seq 512\ntune bench --config config.json --kernels none,auto --json result.json\n"}
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
	f.StringSliceVar(&b.kernels, "kernels", []string{"none", "auto"}, "the `VARIANTS`: selections of kernels, separated by commas; -name belongs to the one before it, as in none,auto,-npu_fused_rope")
	f.StringVar(&b.dir, "plugin-dir", "", pluginDirUsage)
	f.StringVar(&b.json, "json", "", "also write the result to this `FILE`; - for standard output, in place of the table")
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
	b.kernels = joinExclusions(b.kernels)
	for _, k := range b.kernels {
		if _, err := core.ParseSelection(k); err != nil {
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
	if err := checkWritable(b.json); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	o := bench.Options{ModelDir: b.model, Batch: b.batch, Seq: b.seq, Steps: b.steps, Threads: b.threads, Kernels: b.kernels}
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
	k := kernelFlags{kernels: "none", dir: b.dir}
	if slices.ContainsFunc(b.kernels, func(v string) bool { return v != "none" }) {
		k.kernels = "all"
	}
	if o.Registry, err = k.open(ctx, a, transport.Options{Threads: b.threads}); err != nil {
		return err
	}
	if o.Registry != nil {
		defer closing(o.Registry, &err)
	}
	o.Progress, o.Measure.Logger = a.benchStep, a.logger()
	r, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return a.printBench(r, b.json)
}

// benchStep notes each round of a long measurement.
func (a *app) benchStep(p bench.Progress) {
	if p.Round == 0 {
		a.note("warmed up %s", p.Kernels)
		return
	}
	a.note("round %d/%d, %s: %.1f ms", p.Round, p.Rounds, p.Kernels, float64(p.Step.Microseconds())/1000)
}

func (a *app) printBench(r *bench.Result, file string) error {
	if file != "-" {
		fmt.Fprint(a.stdout, r.Table())
	}
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	b = append(b, '\n')
	if file == "-" {
		_, err = a.stdout.Write(b)
		return err
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	fmt.Fprintf(a.stdout, "wrote %s\n", file)
	return nil
}
