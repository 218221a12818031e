package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/models"
)

const benchLong = `Measure what fused kernels are worth on this machine: the same model, weights
and batches, trained with each variant in turn, step by step, in one run. Before
each step that counts, the variant makes one that does not, so that it finds the
caches and its plugins' threads as in a run, not as others left them. The
first variant is what the others are compared with, round by round; a ratio
below 1 is reported like any other, and a difference is only claimed when the
95% interval of the ratio says so, which takes 6 steps or more.

The machine's own ceilings, the bandwidth of memory and the rate of matrix
products, are measured before, between and after the rounds. Every operation is
compared with the one that limits it, and every step with its floor: the matrix
products that its gradients need at the best rate of the run, and the bytes of
the optimizer at the bandwidth of memory. What gradient checkpointing computes
again is not in the floor.

The step is that of tune train with the same flags, on random tokens. With
--config instead of --model, the weights are random; those that LoRA leaves as
they are have the dtype, or torch_dtype, of the config.json.`

// benchFlags are the values of bench's flags.
type benchFlags struct {
	train       trainer.Config // of a step: what of it has a flag here
	config      string
	steps       int
	productRate float64
	kernels     []string
	plugins     pluginFlags
	out         outputFlags
	recompute   recomputing
}

func (a *app) benchCommand() *Command {
	c := &Command{Name: "bench", Usage: "(--model DIR | --config FILE) [FLAGS]",
		Short: "measure what the kernels are worth", Long: benchLong,
		Examples: "tune bench --model DIR --batch 8 --seq 512\ntune bench --config config.json --kernels none,auto " +
			"--html result.html\n" +
			"tune bench --config c.json --kernels none,auto,auto,-npu_fused_rope\n" +
			"tune bench --model DIR --lora-rank 16 --base-int8 --gradient-checkpointing\n"}
	b := &benchFlags{train: trainer.Default()}
	b.add(c)
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := b.check(c); err != nil {
			return err
		}
		return a.bench(ctx, c, b)
	})
}

func (b *benchFlags) add(c *Command) {
	f := c.Group("What is measured")
	f.StringVar(&b.train.Model, "model", "", "the model `FOLDER`")
	f.StringVar(&b.config, "config", "", "a config.json `FILE`, for random weights")
	f.StringSliceVar(&b.kernels, "kernels", []string{"none", "auto"},
		"the `VARIANTS`: selections of kernels, separated by commas; -name belongs to the one before it, as in "+
			"none,auto,-npu_fused_rope; from:RUN are those that a run had; linked:SELECTION takes this program's own "+
			"kernels, without processes")
	b.plugins.addCalls(f)
	f.IntVar(&b.steps, "steps", 10, "measured `STEPS` of each variant, each after one that does not count")
	f.Float64Var(&b.productRate, "product-rate", 0, "a rate in `GFLOP/s` that matrix products of another library were "+
		"seen to reach here, such as a BLAS; the floor of a step takes it if it is higher than what is measured; "+
		"with --precision bf16 there is no floor without, as what is measured are products of float32")
	step := c.Group("The step, as in train")
	addBatch(step, &b.train)
	addLoRA(step, &b.train.LoRA)
	addOptim(step, &b.train)
	addUpdate(step, &b.train)
	addRecompute(step, &b.recompute, &b.train, "")
	addMaxKept(step, &b.train)
	addPrecision(step, &b.train)
	addThreads(step, &b.train.Threads)
	f = c.Group("Form of the result")
	b.out.add(f)
	f.StringVar(&b.out.html, "html", "",
		"also write a page with charts to this `FILE`, which needs nothing else; - as above")
}

// check validates everything that needs no file.
func (b *benchFlags) check(c *Command) error {
	switch {
	case b.train.Model == "" && b.config == "":
		return c.usagef("neither --model nor --config is given: name a model folder, or a config.json for random weights")
	case b.train.Model != "" && b.config != "":
		return c.usagef("--model and --config exclude each other: give one of them")
	case b.steps < 1:
		return c.usagef("--steps is %d, must be positive", b.steps)
	case !(b.productRate >= 0) || math.IsInf(b.productRate, 1):
		return c.usagef("--product-rate is %g, must not be negative", b.productRate)
	}
	if err := cmp.Or(c.misuse(b.train.Validate()), b.out.check(c)); err != nil {
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

// readConfig reads the config.json of either flag.
func (b *benchFlags) readConfig(c *Command) ([]byte, error) {
	if b.config == "" {
		return c.readConfig(&b.train)
	}
	config, err := os.ReadFile(b.config)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", plainfile.Explain(err))
	}
	c.fitSeq(&b.train, config)
	return config, nil
}

// checkModel refuses a model that the flags do not fit before the machine is measured.
func (b *benchFlags) checkModel(config []byte) (err error) {
	mem := transport.NewShapes("tensors")
	defer closing(mem, &err)
	if b.config == "" {
		_, err = shape(b.train, mem)
		return err
	}
	options, err := b.train.LoadOptions()
	if err != nil {
		return err
	}
	m, err := models.NewWith(config, mem, options)
	if err != nil {
		return fmt.Errorf("--config: %s: %w", b.config, err)
	}
	return cmp.Or(b.train.CheckLength(m), b.train.CheckParts(m))
}

func (a *app) bench(ctx context.Context, c *Command, b *benchFlags) (err error) {
	config, err := b.readConfig(c)
	if err != nil {
		return err
	}
	if err := b.checkModel(config); err != nil {
		return err
	}
	o := bench.Options{Config: b.train, ModelJSON: config, Steps: b.steps, Kernels: b.kernels,
		ProductRate: 1e9 * b.productRate}
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	o.Memory = mem
	// All variants share the plugins; none of them alone needs any.
	k := kernelFlags{kernels: "none", plugins: b.plugins}
	needsPlugins := func(k string) bool { return k != "none" && !strings.HasPrefix(k, bench.LinkedPrefix) }
	if slices.ContainsFunc(b.kernels, needsPlugins) {
		k.kernels = "all"
	}
	if o.Registry, err = k.open(ctx, a, transport.Options{Threads: b.train.Threads,
		MaxKept: b.train.MaxKept}); err != nil {
		return err
	}
	defer closing(o.Registry, &err)
	if o.Linked, err = linkedRegistry(); err != nil {
		return err
	}
	o.Progress, o.Measure.Logger = a.benchStep, a.logger()
	o.Ceilings = func(ctx context.Context, long time.Duration) (ceiling.Ceilings, error) {
		return ceiling.MeasureFor(ctx, b.train.Threads, min(long, looking))
	}
	r, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return a.print(r, b.out.forms())
}

// benchStep notes each round of a long measurement.
func (a *app) benchStep(p bench.Progress) {
	if p.Round == 0 {
		a.note("warmed up %s", p.Kernels)
		return
	}
	a.note("round %d/%d, %s: %.1f ms", p.Round, p.Rounds, p.Kernels, float64(p.Step.Microseconds())/1000)
}

// linkedRegistry holds the project's kernels without plugin processes. It owns nothing
// that has to be closed.
func linkedRegistry() (*core.Registry, error) {
	reg := core.NewRegistry()
	for _, k := range linked.Kernels() {
		if err := reg.Register(kerneltest.Verified(k)); err != nil {
			return nil, err
		}
	}
	return reg, nil
}
