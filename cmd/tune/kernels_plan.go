package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

const kernelsPlanLong = `Show what training would do at each site of a model: which kernel it would get,
or why none. Only config.json is read, and nothing is changed; kernels are
verified against the reference as before training.

With auto, each kernel is compared with the plain forward on this machine,
forward and backward, for batches of --batch rows of --seq tokens: it is taken
where it is faster, or spares much memory and is hardly slower. What was
measured is remembered for these plugins, this processor and this program, and
train, bench and parity use it too. from:RUN measures nothing: it gives every
site what it had in that run, or fails.`

// planFlags are the values of kernels plan's flags.
type planFlags struct {
	kernels    kernelFlags
	model      string
	batch, seq int
	seqGiven   bool
	threads    int
	again      bool
	json       bool
}

func (a *app) kernelsPlanCommand() *Command {
	c := &Command{Name: "kernels plan", Usage: "--model DIR [FLAGS]", Short: "show which kernels a model would get, and where", Long: kernelsPlanLong,
		Examples: "tune kernels plan --model DIR --batch 8 --seq 512\ntune kernels plan --model DIR --kernels all,-npu_fused_rope --json\n"}
	p := &planFlags{}
	p.add(c.Group("Flags"))
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		if err := c.noArguments(args); err != nil {
			return err
		}
		if err := p.check(c); err != nil {
			return err
		}
		p.seqGiven = c.Flags.Changed("seq")
		return a.plan(ctx, p)
	}
	return c
}

func (p *planFlags) add(f *pflag.FlagSet) {
	like := trainer.Default()
	f.StringVar(&p.model, "model", "", "the model `FOLDER`, of which config.json is read")
	p.kernels.add(f, "auto")
	f.IntVar(&p.batch, "batch", like.Batch, "`ROWS` of a batch, for auto")
	f.IntVar(&p.seq, "seq", like.Seq, "`TOKENS` of a row, for auto; by default no more than the model can take")
	f.IntVar(&p.threads, "threads", 0, "`THREADS` to compute with, for auto; 0 for all cores")
	f.BoolVar(&p.again, "remeasure", false, "measure also what is remembered, for auto")
	f.BoolVar(&p.json, "json", false, "write JSON")
}

// check validates everything that needs no file.
func (p *planFlags) check(c *Command) error {
	switch {
	case p.model == "":
		return c.usagef("--model is missing: name the model folder to plan for")
	case p.batch < 1:
		return c.usagef("--batch is %d, must be positive", p.batch)
	case p.seq < 1:
		return c.usagef("--seq is %d, must be positive", p.seq)
	}
	if err := c.checkThreads(p.threads); err != nil {
		return err
	}
	return p.kernels.resolve(c)
}

func (a *app) plan(ctx context.Context, f *planFlags) (err error) {
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	m, err := modelShape(f.model, mem)
	if err != nil {
		return err
	}
	if !f.seqGiven {
		f.seq = min(f.seq, m.Config.MaxPositionEmbeddings)
	}
	if err := m.Config.CheckLength("--seq", f.seq); err != nil {
		return err
	}
	if f.batch > nn.MaxTokens/f.seq {
		return fmt.Errorf("--batch is %d rows of %d tokens, more than %d in all: choose fewer", f.batch, f.seq, nn.MaxTokens)
	}
	reg, err := f.kernels.open(ctx, a, transport.Options{Threads: f.threads})
	if err != nil {
		return err
	}
	if reg == nil {
		reg = core.NewRegistry()
	}
	defer closing(reg, &err)
	simd.SetThreads(f.threads)
	p, err := measure.Plan(ctx, m, reg, f.kernels.kernels, measure.Run{Memory: mem, Batch: f.batch, Seq: f.seq},
		measure.Options{Again: f.again, Logger: a.logger()})
	if err != nil {
		return f.kernels.blame(err)
	}
	if f.json {
		return a.writeJSON(newPlanned(p, f))
	}
	_, err = fmt.Fprint(a.stdout, paletteOf(a.stdout).actions(core.FormatActions(p.Actions)))
	return err
}

// modelShape builds a model of which only the shape matters. Its weights are memory that
// nobody touches.
func modelShape(dir string, mem core.Memory) (*models.Model, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	m, err := models.New(config, mem)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// planned is what "kernels plan --json" writes.
type planned struct {
	Batch   int            `json:"batch"`
	Seq     int            `json:"seq"`
	Sites   []plannedSite  `json:"sites"`
	Applied map[string]int `json:"kernels_applied"` // sites of each kernel
}

type plannedSite struct {
	Path   string     `json:"path"`
	Op     core.Op    `json:"op"`
	Facts  core.Facts `json:"facts"`
	Kernel string     `json:"kernel"` // empty for the plain forward
	Reason string     `json:"reason,omitempty"`
	// CoveredBy is the path of the site whose kernel does the work of this one.
	CoveredBy string `json:"covered_by,omitempty"`

	Measured *core.Measurement `json:"measured,omitempty"` // what auto has decided by
}

func newPlanned(p *core.Plan, f *planFlags) planned {
	out := planned{Batch: f.batch, Seq: f.seq, Sites: []plannedSite{}, Applied: map[string]int{}}
	for _, action := range p.Actions {
		s := plannedSite{Path: action.Site.Path, Op: action.Site.Op, Facts: action.Site.Facts, Reason: action.Reason,
			CoveredBy: action.CoveredBy, Measured: action.Measured}
		if action.Kernel != nil {
			s.Kernel = action.Kernel.Info().Name
			out.Applied[s.Kernel]++
		}
		out.Sites = append(out.Sites, s)
	}
	return out
}
