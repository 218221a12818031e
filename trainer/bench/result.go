package bench

import (
	"cmp"
	"encoding/json"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// Result is the outcome of a measurement.
type Result struct {
	Machine Machine    `json:"machine"`
	Config  Config     `json:"config"`
	Floor   Floor      `json:"floor"` // of a step of any variant
	Runs    []Measured `json:"runs"`  // in the order of Options.Kernels
}

// Config says what was measured.
type Config struct {
	Model      string          `json:"model,omitempty"` // the folder; empty for random weights
	ModelType  string          `json:"model_type"`
	Parameters int             `json:"parameters"` // elements, those of adapters too
	Trained    int             `json:"trained"`    // of these
	Batch      int             `json:"batch"`
	Seq        int             `json:"seq"`
	Steps      int             `json:"steps"`
	Seed       uint64          `json:"seed"`
	ModelJSON  json.RawMessage `json:"model_config"` // config.json as it was read

	// These are as in trainer.Config.
	Accumulate            int              `json:"grad_accum"`
	Precision             models.Precision `json:"precision"`
	LoRA                  lora.Config      `json:"lora,omitzero"`
	GradientCheckpointing bool             `json:"gradient_checkpointing"`
	WeightDecay           float64          `json:"weight_decay"`
	Clip                  float64          `json:"clip"`
}

// Measured is what one variant came to.
type Measured struct {
	Kernels   string    `json:"kernels"`
	Threads   int       `json:"threads"`
	Step      Spread    `json:"step_ms"` // a whole step, batch to updated weights
	Forward   Spread    `json:"forward_ms"`
	Backward  Spread    `json:"backward_ms"`
	Optimizer Spread    `json:"optimizer_ms"`    // gradient norm, clipping and update
	Tokens    float64   `json:"tokens_per_s"`    // of the median step
	OverFloor float64   `json:"step_over_floor"` // the median step divided by Result.Floor; 0 without ceilings
	Steps     []Step    `json:"steps"`           // in the order they were made
	Losses    []float64 `json:"losses"`          // before each measured step's update

	// Speedup is the first variant's step divided by this one's, round by round: above 1
	// this variant is faster, below 1 it is slower. SpeedupInterval holds its true median;
	// nil with too few rounds.
	Speedup         Spread    `json:"speedup"`
	SpeedupInterval *Interval `json:"speedup_interval"`

	// PeakRSS is the memory that this program and its plugins would take with this
	// variant alone, in bytes: what they took before any variant was set up, plus what
	// they grew by from setting this one up to the end of its first step, which touches
	// all of its memory. Pages that processes share count once, garbage does not count.
	// 0 where the operating system does not tell (it takes Linux's Pss).
	PeakRSS int64  `json:"peak_rss_bytes"`
	Memory  Memory `json:"memory_bytes"`

	KernelsApplied map[string]int `json:"kernels_applied"` // sites that hold each kernel
	KernelCalls    []Call         `json:"kernel_calls"`    // of the fused kernels
	PlainCalls     []Call         `json:"plain_calls"`     // of everything else in the graph
	Update         Call           `json:"update"`          // of the optimizer
	Boundary       Boundary       `json:"boundary"`
	Products       Products       `json:"products"`
	// Fallbacks counts calls that the reference answered because a plugin could not; with
	// any, the times are not the kernels' own.
	Fallbacks uint64 `json:"fallbacks"`
}

// Step is one measured step, in milliseconds. The whole is a little more than its parts.
type Step struct {
	Whole     float64 `json:"ms"`
	Forward   float64 `json:"forward_ms"`
	Backward  float64 `json:"backward_ms"`
	Optimizer float64 `json:"optimizer_ms"`
}

// Memory is what a variant holds, exactly, as it was planned.
type Memory struct {
	Parameters int64 `json:"parameters"`
	Optimizer  int64 `json:"optimizer"`      // what it remembers
	Program    int64 `json:"program"`        // activations and gradients, on both sides of the boundary
	Kept       int64 `json:"kept,omitempty"` // packed weights that kernels keep, at most
	Total      int64 `json:"total"`
}

// Call says what one kind of operation cost in one pass, over all measured steps.
type Call struct {
	Op     string    `json:"op"`
	Kernel string    `json:"kernel,omitempty"` // empty for a plain operation
	Pass   string    `json:"pass"`             // forward, backward, recompute or update
	Calls  int       `json:"calls"`
	MS     float64   `json:"ms"`
	Work   core.Work `json:"work"`
	// OfCeiling is the least time in which the machine can do the work, by its own
	// ceilings, divided by the time that it took: above 1 where data come from a cache or,
	// by a little, are overwritten in place; 0 where the ceilings were not measured.
	OfCeiling float64 `json:"of_ceiling"`
}

// Boundary says what it cost that kernels run in processes of their own, over all
// measured steps. Both are 0 for kernels that are linked in.
type Boundary struct {
	WaitedMS float64 `json:"waited_ms"` // by the host, for calls into plugins
	BusyMS   float64 `json:"busy_ms"`   // of that, the time in which the kernels ran
}

// MS returns the time that went into crossing the boundary.
func (b Boundary) MS() float64 { return b.WaitedMS - b.BusyMS }

// Products says what a variant spends on matrix products: all operations that have any,
// with what else they do, such as the softmax of attention.
type Products struct {
	Flops     float64 `json:"flop_per_step"` // in products alone
	Share     float64 `json:"share_of_step"`
	Rate      float64 `json:"flop_per_s"`
	OfCeiling float64 `json:"of_ceiling"` // 0 where that was not measured
}

func newResult(o Options, variants []*variant, limits ceiling.Ceilings) *Result {
	m := variants[0].model
	r := &Result{
		Machine: ThisMachine(),
		Config: Config{Model: o.Model, ModelType: m.Config.ModelType, Trained: m.Elems(), Batch: o.Batch, Seq: o.Seq,
			Steps: o.Steps, Seed: o.Seed, ModelJSON: m.RawConfig, Accumulate: o.Accumulate, LoRA: o.LoRA,
			Precision: o.Precision, GradientCheckpointing: o.GradientCheckpointing, WeightDecay: o.WeightDecay, Clip: o.Clip},
	}
	if m.Adapter != nil {
		r.Config.LoRA = m.Adapter.Config() // with what is left to defaults, or said by a folder
		r.Config.LoRA.Adapter = o.LoRA.Adapter
		r.Config.LoRA.BaseInt8, r.Config.LoRA.BaseNF4 = o.LoRA.BaseInt8, o.LoRA.BaseNF4
	}
	for _, p := range m.Params() {
		r.Config.Parameters += p.Tensor.Elems()
	}
	r.Machine.Ceilings = limits
	rated := limits
	if o.Precision.Mixed() {
		rated.Products = 0 // what was measured are products of float32, which these are faster than
	}
	r.Floor = newFloor(variants[0].needed, float64(updateWork(m.Elems(), 1, variants[0].engine.StateBytes()).Bytes),
		rated, o.ProductRate)
	for _, v := range variants {
		run := v.result(o, limits, variants[0])
		if r.Floor.MS > 0 {
			run.OverFloor = run.Step.Median / r.Floor.MS
		}
		r.Runs = append(r.Runs, run)
	}
	return r
}

func (v *variant) result(o Options, limits ceiling.Ceilings, first *variant) Measured {
	ratios := v.speedups(first)
	r := Measured{
		Kernels: v.kernels, Threads: simd.Threads(),
		Step: v.spread(whole), Forward: v.spread(forward), Backward: v.spread(backward), Optimizer: v.spread(optimizer),
		Steps: v.steps, Losses: v.losses, Speedup: newSpread(ratios), SpeedupInterval: newInterval(ratios),
		PeakRSS: v.peak, Memory: v.bytes(),
		KernelsApplied: v.report.Applied(), KernelCalls: []Call{}, PlainCalls: []Call{}, Fallbacks: v.health.Fallbacks,
		Boundary: Boundary{WaitedMS: ms(v.health.Waited), BusyMS: ms(v.health.Busy)},
	}
	r.Tokens = 1000 * float64(o.Batch*o.Seq*o.Accumulate) / r.Step.Median
	for _, s := range v.engine.Program().Stats() {
		c := newCall(Call{Op: s.Op, Kernel: s.Kernel, Pass: s.PassName(), Calls: s.Calls, MS: ms(s.Time), Work: s.Work},
			limits)
		if s.Kernel != "" {
			r.KernelCalls = append(r.KernelCalls, c)
		} else {
			r.PlainCalls = append(r.PlainCalls, c)
		}
	}
	r.Update = newCall(Call{Op: string(cmp.Or(o.Optimizer.Kind, optim.AdamW)), Pass: "update", Calls: len(v.steps),
		MS:   sum(v.steps, optimizer),
		Work: updateWork(v.model.Elems(), len(v.steps), v.engine.StateBytes())}, limits)
	r.Products = r.newProducts(limits)
	return r
}

// newCall adds to a call how near it came to the ceiling.
func newCall(c Call, limits ceiling.Ceilings) Call {
	floor, _ := limits.Floor(float64(c.Work.Bytes), c.Work.Flops())
	if c.MS > 0 {
		c.OfCeiling = ms(floor) / c.MS
	}
	return c
}

// updateWork is that of the optimizer for so many parameters: it reads each gradient to
// find the norm of all, and then again with the parameter and what it remembers, which it
// writes; AdamW does 2 and 15 operations.
func updateWork(params, steps int, remembered int64) core.Work {
	n := int64(params) * int64(steps)
	return core.Work{Bytes: 4*4*n + 2*remembered*int64(steps), Elementwise: 17 * float64(n)}
}

func (v *Measured) newProducts(limits ceiling.Ceilings) Products {
	var p Products
	spent := 0.0
	for _, c := range v.calls() {
		if c.Work.Products > 0 {
			p.Flops += c.Work.Products
			spent += c.MS
		}
	}
	if spent > 0 {
		p.Rate = 1000 * p.Flops / spent
		p.Share = spent / v.total()
	}
	if limits.Products > 0 {
		p.OfCeiling = p.Rate / limits.Products
	}
	p.Flops /= float64(len(v.Steps))
	return p
}
