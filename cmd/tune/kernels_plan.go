package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/measure"
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
	trainer.Config
	kernels     kernelFlags
	again, json bool
}

func (a *app) kernelsPlanCommand() *Command {
	c := &Command{Name: "kernels plan", Usage: "--model DIR [FLAGS]",
		Short: "show which kernels a model would get, and where", Long: kernelsPlanLong,
		Examples: "tune kernels plan --model DIR --batch 8 --seq 512\n" +
			"tune kernels plan --model DIR --kernels all,-npu_fused_rope --json\n"}
	p := &planFlags{Config: trainer.Default()}
	f := c.Group("Flags")
	f.StringVar(&p.Model, "model", "", "the model `FOLDER`, of which config.json is read")
	p.kernels.add(f, "auto")
	addRows(f, &p.Config)
	addPrecision(f, &p.Config)
	addThreads(f, &p.Threads)
	f.BoolVar(&p.again, "remeasure", false, "measure also what is remembered, for auto")
	f.BoolVar(&p.json, "json", false, "write JSON")
	return c.finish(func(ctx context.Context, _ []string) error {
		if p.Model == "" {
			return c.usagef("--model is missing: name the model folder to plan for")
		}
		if err := cmp.Or(c.misuse(p.Validate()), p.kernels.resolve(c)); err != nil {
			return err
		}
		return a.plan(ctx, c, p)
	})
}

func (a *app) plan(ctx context.Context, c *Command, f *planFlags) (err error) {
	if _, err := c.readConfig(&f.Config); err != nil {
		return err
	}
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	m, err := shape(f.Config, mem)
	if err != nil {
		return err
	}
	if err := m.Round(f.Precision.Products()); err != nil {
		return err
	}
	reg, err := f.kernels.open(ctx, a, transport.Options{Threads: f.Threads})
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	simd.SetThreads(f.Threads)
	p, err := measure.Plan(ctx, m, reg, f.kernels.kernels, measure.Run{Memory: mem, Batch: f.Batch, Seq: f.Seq},
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
	out := planned{Batch: f.Batch, Seq: f.Seq, Sites: []plannedSite{}, Applied: map[string]int{}}
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
