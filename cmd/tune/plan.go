package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
)

const planLong = `Say what a training run will need, before it starts: parameters, memory part
by part, the time of a step, and which kernel goes where. It takes the flags of
train, and refuses a run that the machine's free memory cannot hold, with what
would make it fit.

Of the model only config.json is read, and for LoRA how its files store weights.
With --data, that is read too: how many rows there are, how many steps that
makes and, as JSON, the learning rate of each and the tensors that decay.
The memory is what the graphs of that very run plan, compiled but not run. Train
makes the same check, and goes on without it with --force. The time is a range:
from the bytes and operations of a step at the best that this machine gave while
it was measured, for a second, to what steps usually reach of its worst. What
other programs took of the machine meanwhile is in it, and is said.`

func (a *app) planCommand() *Command {
	c := &Command{Name: "plan", Usage: "--model DIR [FLAGS of train]",
		Short: "say what a training run will need: memory, time, kernels", Long: planLong,
		Examples: "tune plan --model DIR --batch 8 --seq 512\ntune plan --config run.yaml --gradient-checkpointing --json\n"}
	t := newTrainFlags(c)
	t.noData = true
	ranks := &ranksPlan{}
	ranks.add(c.Group("Several machines"))
	form := c.Group("Form of the plan")
	compare := addCompareWeights(form)
	json := form.Bool("json", false, "write JSON")
	return c.finish(func(ctx context.Context, _ []string) error {
		if printed, err := t.ready(ctx, a, c); printed || err != nil {
			return err
		}
		if err := ranks.check(c, t); err != nil {
			return err
		}
		if *compare {
			if err := checkCompareWeights(c, t.config); err != nil {
				return err
			}
		}
		return a.planRun(ctx, c, t, ranks, *compare, *json)
	})
}

// runPlan is what "tune plan" finds out.
type runPlan struct {
	Model string `json:"model"` // the model_type
	*forecast.Forecast
	Bytes     int64              `json:"bytes"`
	Available int64              `json:"available_bytes"` // 0 if unknown
	Fits      bool               `json:"fits"`
	Others    []otherRun         `json:"alternatives,omitempty"` // when it does not fit
	From      float64            `json:"step_from_s"`            // a step is likely to take from this
	To        float64            `json:"step_to_s"`              // to that
	Busy      float64            `json:"busy_cores"`             // that other programs kept before; 0 if unknown
	Ceilings  ceiling.Ceilings   `json:"ceilings"`
	Kernels   map[string]int     `json:"kernels_applied"`   // sites of each
	Course    *course            `json:"course,omitempty"`  // with data
	Ranks     []forecast.OfRanks `json:"ranks,omitempty"`   // of several machines
	Chosen    *fitted            `json:"chosen,omitempty"`  // for --memory
	Weights   []weightsRun       `json:"weights,omitempty"` // compared with each other
	limited   bool               // Available is what --memory says
	moments   int64              // bytes that the optimizer remembers
	config    trainer.Config
	report    *core.Report
	run       forecast.Run
}

// otherRun is a change that needs less memory.
type otherRun struct {
	Change string `json:"change"`
	Bytes  int64  `json:"bytes"`
	Fits   bool   `json:"fits"`
}

func (a *app) planRun(ctx context.Context, c *Command, t *trainFlags, ranks *ranksPlan,
	compare, json bool) (err error) {
	nowhere := t.checkOut(c)
	if err := t.fitModel(c); err != nil {
		return err
	}
	mem := transport.NewShapes("tensors")
	defer closing(mem, &err)
	reg, err := t.kernels.open(ctx, a, transport.Options{Threads: t.config.Threads, MaxKept: t.config.MaxKept})
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	fitted, err := a.fit(ctx, c, t, reg)
	if err != nil {
		return err
	}
	m, err := shape(t.config, mem)
	if err != nil {
		return err
	}
	simd.SetThreads(t.config.Threads)
	course, err := t.course(ctx, a, m)
	if err != nil {
		return err
	}
	defer closing(course, &err)
	p, err := a.makeRunPlan(ctx, c, t, m, mem, reg, course)
	if err != nil {
		return t.kernels.blame(err)
	}
	p.config, p.Chosen = t.config, fitted
	if p.To > 0 || ranks.step > 0 { // one that does not fit has no time
		p.Ranks = ranks.forecast(p, t)
	}
	if compare {
		f := a.fitter(ctx, c, t, t.config, mem, reg)
		f.limit, f.course = p.Available, course
		if p.Weights, err = a.compareWeights(ctx, c, f); err != nil {
			return t.kernels.blame(err)
		}
	}
	if json {
		err = a.writeJSON(p)
	} else {
		p.print(a.stdout)
	}
	if err == nil && !p.Fits && !t.config.Force {
		return p.refusal()
	}
	return cmp.Or(err, nowhere)
}

func (a *app) makeRunPlan(ctx context.Context, command *Command, t *trainFlags, m *models.Model, mem core.Memory,
	reg *core.Registry, course *course) (*runPlan, error) {
	c, patch := t.config, a.patcher(ctx, t.config, mem, reg)
	p := &runPlan{Model: m.Config.ModelType, Course: course, Available: t.limit(a.world != nil),
		limited: t.memory.bytes > 0}
	var err error
	if p.report, err = patch(m); err != nil {
		return nil, err
	}
	p.Kernels = p.report.Applied()
	p.run = p.Course.of(forecastOf(c, p.report))
	p.run.Free = p.Available
	if p.Forecast, err = forecast.New(m, mem, p.run); err != nil {
		return nil, err
	}
	p.Bytes, p.moments = p.Forecast.Bytes(), c.OptimConfig().Bytes(forecast.Params(m))
	if p.Fits = p.Available == 0 || p.Bytes <= p.Available; !p.Fits {
		f := a.fitter(ctx, command, t, c, mem, reg)
		f.course = course
		return p, p.lookForFit(f, &smaller{mem, c, patch}, m)
	}
	return p, p.time(ctx, c.Threads)
}

// patcher returns what puts the kernels where a run has them.
func (a *app) patcher(ctx context.Context, c trainer.Config, mem core.Memory,
	reg *core.Registry) func(*models.Model) (*core.Report, error) {
	var placed []core.Action
	return func(m *models.Model) (*core.Report, error) {
		if err := m.Round(c.Precision.Products()); err != nil {
			return nil, err
		}
		plan, err := measure.Plan(ctx, m, reg, c.Kernels, measure.Run{Memory: mem, Batch: c.Batch, Seq: c.Seq,
			Keepless: c.MaxKept < 0}, measure.Options{Placed: placed, Logger: a.logger()})
		if err != nil {
			return nil, err
		}
		placed = append(placed, plan.Actions...)
		return plan.Apply()
	}
}

// forecastOf is what to forecast of a run with kernels in place. Of a run whose data are not known, batches may have
// as many lengths as there can be.
func forecastOf(c trainer.Config, placed *core.Report) forecast.Run {
	held := c.Data.EvalSize == nil || *c.Data.EvalSize > 0 || len(c.Data.Eval) > 0
	r := c.Forecast(held, placed.Processes())
	if c.Data.NoPacking {
		r.Lengths = slices.Repeat([]int{c.Seq}, data.MostLengths-1)
	}
	return r
}

func (p *runPlan) print(w io.Writer) {
	fmt.Fprintf(w, "model        %s, %s parameters, %s of them trained\n", p.Model, amount.Count(p.Parameters),
		amount.Count(p.Trainable))
	fmt.Fprintf(w, "step         %d tokens: %d x %d rows of %d\n", p.Tokens, max(p.run.Accumulate, 1), p.run.Batch,
		p.run.Seq)
	if p.Course != nil {
		p.Course.print(w, p.config)
	}
	fmt.Fprint(w, "\nmemory\n")
	for _, part := range p.Memory {
		note := ""
		if part.Name == forecast.KeptPart {
			note = "  packed weights kept by kernels, at most"
		}
		fmt.Fprintf(w, "  %-12s %10s%s\n", part.Name, amount.Bytes(part.Bytes), note)
	}
	fmt.Fprintf(w, "  %-12s %10s", "together", amount.Bytes(p.Bytes))
	if p.Available > 0 {
		are := map[bool]string{true: "allowed", false: "free"}[p.limited]
		fmt.Fprintf(w, " of %s that are %s", amount.Bytes(p.Available), are)
	}
	fmt.Fprintln(w)
	for _, o := range p.Others {
		fmt.Fprintf(w, "  %-12s %10s with%s\n", "", amount.Bytes(o.Bytes), o.Change)
	}
	if lines := p.Chosen.lines(); lines != nil {
		fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	}
	printWeights(w, p.Weights)
	p.printTime(w)
	p.printRanks(w)
	fmt.Fprintf(w, "\nkernels\n%s", paletteOf(w).actions(p.report.String()))
}

// looking is how long plan and the commands that bench look at what the machine can do, at most. Tests, which start
// many, take a glance at it, see ceiling.MeasureFor.
var looking = time.Second

// time measures the machine and says how long a step is likely to take on it.
func (p *runPlan) time(ctx context.Context, threads int) error {
	// Before this program adds to it: how many processes have wanted to run in the last minute,
	// see proc_loadavg(5); 0 where nothing tells.
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(load), &p.Busy)
	p.Busy = min(p.Busy, float64(runtime.NumCPU())) // which more cannot keep busy
	best, worst, err := ceiling.Range(ctx, threads, looking)
	if err != nil {
		return err
	}
	p.Ceilings = best
	from, to := p.Step(best, worst)
	p.From, p.To = from.Seconds(), to.Seconds()
	return nil
}

// isBusy is the share of the cores from which others make a difference.
const isBusy = 0.25

func (p *runPlan) printTime(w io.Writer) {
	if p.To == 0 {
		return
	}
	fmt.Fprintf(w, "\ntime of a step, with %s at up to %.0f GFLOP/s and %.0f GB/s\n",
		amount.Of(p.Ceilings.Threads, "thread"), p.Ceilings.Products/1e9, p.Ceilings.Bandwidth/1e9)
	fmt.Fprintf(w, "  %s to %s: %.0f to %.0f tokens/s\n", duration(p.From), duration(p.To), float64(p.Tokens)/p.To,
		float64(p.Tokens)/p.From)
	if p.Busy > isBusy*float64(runtime.NumCPU()) {
		fmt.Fprintf(w, "  other programs kept %.1f of the %s busy in the last minute: without\n  them steps may be "+
			"faster than that\n", p.Busy, amount.Of(runtime.NumCPU(), "core"))
	}
}

func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Microsecond
	for d >= 1000*unit { // three digits
		unit *= 10
	}
	return d.Round(unit).String()
}
