package main

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/models"
)

const kernelsPlanLong = `Show what training would do at each site of a model: which kernel it would get,
or why none. Only config.json is read, and nothing is changed; kernels are
verified against the reference as before training.`

func (a *app) kernelsPlanCommand() *Command {
	c := &Command{Name: "kernels plan", Usage: "--model DIR [FLAGS]", Short: "show which kernels a model would get, and where", Long: kernelsPlanLong,
		Examples: "tune kernels plan --model DIR\ntune kernels plan --model DIR --kernels all,-npu_fused_rope --json\n"}
	var dir string
	var asJSON bool
	var k kernelFlags
	f := c.Group("Flags")
	f.StringVar(&dir, "model", "", "the model `FOLDER`, of which config.json is read")
	k.add(f, "auto")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		if err := c.noArguments(args); err != nil {
			return err
		}
		if dir == "" {
			return c.usagef("--model is missing: name the model folder to plan for")
		}
		if err := k.resolve(c); err != nil {
			return err
		}
		return a.plan(ctx, dir, k, asJSON)
	}
	return c
}

func (a *app) plan(ctx context.Context, dir string, k kernelFlags, asJSON bool) (err error) {
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	m, err := modelShape(dir, mem)
	if err != nil {
		return err
	}
	reg, err := k.open(ctx, a, transport.Options{})
	if err != nil {
		return err
	}
	if reg == nil {
		reg = core.NewRegistry()
	}
	defer closing(reg, &err)
	sel, err := core.ParseSelection(k.kernels)
	if err != nil {
		return err
	}
	p, err := core.NewPlan(m, reg, sel)
	if err != nil {
		return k.blame(err)
	}
	if asJSON {
		return a.writeJSON(newPlanned(p))
	}
	_, err = fmt.Fprint(a.stdout, core.FormatActions(p.Actions))
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
	Sites   []plannedSite  `json:"sites"`
	Applied map[string]int `json:"kernels_applied"` // sites of each kernel
}

type plannedSite struct {
	Path   string     `json:"path"`
	Op     core.Op    `json:"op"`
	Facts  core.Facts `json:"facts"`
	Kernel string     `json:"kernel"` // empty for the plain forward
	Reason string     `json:"reason,omitempty"`
}

func newPlanned(p *core.Plan) planned {
	out := planned{Sites: []plannedSite{}, Applied: map[string]int{}}
	for _, action := range p.Actions {
		s := plannedSite{Path: action.Site.Path, Op: action.Site.Op, Facts: action.Site.Facts, Reason: action.Reason}
		if action.Kernel != nil {
			s.Kernel = action.Kernel.Info().Name
			out.Applied[s.Kernel]++
		}
		out.Sites = append(out.Sites, s)
	}
	return out
}
