package bench

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/seed98097648/tune/internal/simd"
)

// Result is the outcome of a measurement.
type Result struct {
	Machine Machine    `json:"machine"`
	Config  Config     `json:"config"`
	Runs    []Measured `json:"runs"` // in the order of Options.Kernels
}

// Config says what was measured.
type Config struct {
	Model      string          `json:"model,omitempty"` // the folder; empty for random weights
	ModelType  string          `json:"model_type"`
	Parameters int             `json:"parameters"` // trainable elements
	Batch      int             `json:"batch"`
	Seq        int             `json:"seq"`
	Steps      int             `json:"steps"`
	Seed       uint64          `json:"seed"`
	ModelJSON  json.RawMessage `json:"model_config"` // config.json as it was read
}

// Measured is what one variant came to.
type Measured struct {
	Kernels   string    `json:"kernels"`
	Threads   int       `json:"threads"`
	Step      Spread    `json:"step_ms"` // a whole step, batch to updated weights
	Forward   Spread    `json:"forward_ms"`
	Backward  Spread    `json:"backward_ms"`
	Optimizer Spread    `json:"optimizer_ms"` // gradient norm, clipping and AdamW
	Tokens    float64   `json:"tokens_per_s"` // of the median step
	Losses    []float64 `json:"losses"`       // before each measured step's update

	// Speedup is the first variant's step divided by this one's, round by round: above 1
	// this variant is faster, below 1 it is slower.
	Speedup Spread `json:"speedup"`

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
	// Fallbacks counts calls that the reference answered because a plugin could not; with
	// any, the times are not the kernels' own.
	Fallbacks uint64 `json:"fallbacks"`
}

// Spread describes the values of several steps: percentiles with linear interpolation.
type Spread struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// Memory is what a variant holds, exactly, as it was planned.
type Memory struct {
	Parameters int64 `json:"parameters"`
	Optimizer  int64 `json:"optimizer"` // the moments of AdamW
	Program    int64 `json:"program"`   // activations and gradients, on both sides of the boundary
	Total      int64 `json:"total"`
}

// Call says what one kind of operation cost in one pass, over all measured steps.
type Call struct {
	Op     string  `json:"op"`
	Kernel string  `json:"kernel,omitempty"` // empty for a plain operation
	Pass   string  `json:"pass"`             // forward or backward
	Calls  int     `json:"calls"`
	MS     float64 `json:"ms"`
}

func newResult(o Options, variants []*variant) *Result {
	m := variants[0].model
	r := &Result{
		Machine: thisMachine(),
		Config: Config{Model: o.ModelDir, ModelType: m.Config.ModelType, Parameters: m.Elems(), Batch: o.Batch, Seq: o.Seq,
			Steps: o.Steps, Seed: o.Seed, ModelJSON: m.RawConfig},
	}
	for _, v := range variants {
		r.Runs = append(r.Runs, v.result(o, variants[0]))
	}
	return r
}

func (v *variant) result(o Options, first *variant) Measured {
	r := Measured{
		Kernels: v.kernels, Threads: simd.Threads(),
		Step: spread(milliseconds(v.whole)), Forward: spread(milliseconds(v.forward)),
		Backward: spread(milliseconds(v.backward)), Optimizer: spread(milliseconds(v.optimizer)),
		Losses: v.losses, Speedup: v.speedup(first), PeakRSS: v.peak, Memory: v.bytes(),
		KernelsApplied: v.report.Applied(), KernelCalls: []Call{}, PlainCalls: []Call{}, Fallbacks: v.fallbacks,
	}
	r.Tokens = 1000 * float64(o.Batch*o.Seq) / r.Step.Median
	for _, s := range v.engine.Program().Stats() {
		c := Call{Op: s.Op, Kernel: s.Kernel, Pass: s.PassName(), Calls: s.Calls, MS: ms(s.Time)}
		if s.Kernel != "" {
			r.KernelCalls = append(r.KernelCalls, c)
		} else {
			r.PlainCalls = append(r.PlainCalls, c)
		}
	}
	return r
}

// speedup pairs the steps that both variants made on the same batch.
func (v *variant) speedup(first *variant) Spread {
	ratios := make([]float64, len(v.whole))
	for i := range ratios {
		ratios[i] = float64(first.whole[i]) / float64(v.whole[i])
	}
	return spread(ratios)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func milliseconds(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = ms(d)
	}
	return out
}

// spread needs at least one value.
func spread(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		low, part := math.Modf(q * float64(len(v)-1))
		i := int(low)
		return v[i] + part*(v[min(i+1, len(v)-1)]-v[i])
	}
	return Spread{Median: at(0.5), P10: at(0.1), P90: at(0.9)}
}
