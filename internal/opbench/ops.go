package opbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/ceiling"
)

// Options say what Run measures.
type Options struct {
	Kernels  []core.Kernel     // of plugins
	Linked   []core.Kernel     // of this program; those with name and op of a plugin's are measured beside it
	Memory   core.Memory       // for inputs
	DType    core.DType        // of activations and weights; float32 if not set
	Tokens   []int             // the numbers of them that each shape is measured with; nil for the op's own
	Rounds   int               // measurements of each side
	Ceilings ceiling.Ceilings  // what times are judged by, with the same number of threads
	CPU      string            // the processor's name, for the result
	Progress func(what string) // called before each shape; may be nil
}

// Result is what Run measured.
type Result struct {
	CPU      string           `json:"cpu"`
	Rounds   int              `json:"rounds"`
	Ceilings ceiling.Ceilings `json:"ceilings"`
	Rows     []Row            `json:"rows"`
	Skipped  []Skipped        `json:"skipped"`
	// Copies counts tensors that had to be copied to or from a plugin. With any, the times
	// across the boundary are not the kernels' own.
	Copies uint64 `json:"copies"`
}

// Row is one pass of a kernel on one shape, on one side.
type Row struct {
	Kernel string     `json:"kernel"`
	Op     core.Op    `json:"op"`
	Shape  string     `json:"shape"`
	Tokens int        `json:"tokens"`
	Facts  core.Facts `json:"facts"`
	Pass   string     `json:"pass"` // forward, backward, or both, one after the other
	Side   string     `json:"side"` // plugin or linked
	Calls  int        `json:"calls_per_round"`
	MS     Stat       `json:"ms"`

	core.Work
	GBs            float64 `json:"gb_per_s"`
	GFLOPs         float64 `json:"gflop_per_s"` // of matrix products
	Bound          string  `json:"bound"`       // the ceiling that applies: memory or compute
	CeilingPercent float64 `json:"percent_of_ceiling"`

	ns []float64 // of a call, one for each round
}

// Skipped is a shape that a kernel does not support, or an op that has no shapes.
type Skipped struct {
	Kernel string  `json:"kernel"`
	Op     core.Op `json:"op"`
	Shape  string  `json:"shape,omitempty"`
	Reason string  `json:"reason"`
}

// The sides of a measurement.
const (
	Plugin = "plugin" // across the boundary between processes
	Linked = "linked" // in this process
)

// Run measures every kernel on every shape of its op. Errors name the kernel and the
// shape. When ctx ends, so does Run, with its error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Rounds < 1 {
		return nil, fmt.Errorf("opbench: %d rounds, must be at least 1", o.Rounds)
	}
	o.DType = cmp.Or(o.DType, core.Float32)
	r := &Result{CPU: o.CPU, Rounds: o.Rounds, Ceilings: o.Ceilings, Rows: []Row{}, Skipped: []Skipped{}}
	for _, k := range o.Kernels {
		info := k.Info()
		all := usesOf(k, o.DType, o.Tokens)
		if len(all) == 0 {
			r.Skipped = append(r.Skipped, Skipped{Kernel: info.Name, Op: info.Op, Reason: "no shapes are known for this op"})
		}
		before := core.HealthOf(k).Copies
		for _, u := range all {
			if err := r.measure(ctx, o, k, u); err != nil {
				return nil, fmt.Errorf("opbench: %s, %s %s: %w", info.Name, u.Op, u.shape, err)
			}
		}
		r.Copies += core.HealthOf(k).Copies - before
	}
	return r, nil
}

// measure adds the rows of a kernel and a shape.
func (r *Result) measure(ctx context.Context, o Options, k core.Kernel, u use) error {
	info := k.Info()
	if err := k.Supports(u.Facts); errors.Is(err, core.ErrNotSupported) {
		r.Skipped = append(r.Skipped, Skipped{info.Name, u.Op, u.shape, err.Error()})
		return nil
	} else if err != nil {
		return err
	}
	if o.Progress != nil {
		o.Progress(fmt.Sprintf("%s, %s %s", info.Name, u.Op, u.shape))
	}
	in, out := &arena{Memory: o.Memory}, &arena{Memory: core.OutputsOf(k, o.Memory)}
	defer in.freeAll()
	defer out.freeAll()
	forward, backward, err := kerneltest.CallsIn(ctx, k, u.Case, in, out)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name  string
		calls []*core.Call
	}{
		{"forward", []*core.Call{forward}},
		{"backward", []*core.Call{backward}},
		{"both", []*core.Call{forward, backward}},
	} {
		if p.name != "forward" && !info.Backward || p.name == "both" && u.lossToo {
			break
		}
		row := Row{Kernel: info.Name, Op: u.Op, Shape: u.shape, Tokens: u.Tokens, Facts: u.Facts, Pass: p.name}
		for _, c := range p.calls {
			row.Work = row.Work.Plus(c.Work())
		}
		if err := r.time(ctx, o, k, row, p.calls); err != nil {
			return err
		}
	}
	return nil
}

// time adds a row for each side.
func (r *Result) time(ctx context.Context, o Options, k core.Kernel, row Row, calls []*core.Call) error {
	names, sides := []string{Plugin}, []func() error{runner(ctx, k, calls...)}
	if l := twin(k, o.Linked); l != nil {
		names, sides = append(names, Linked), append(sides, runner(ctx, l, calls...))
	}
	ns, reps, err := alternate(ctx, sides, o.Rounds)
	if err != nil {
		return err
	}
	for i, side := range names {
		row.Side, row.Calls, row.ns = side, reps, ns[i]
		r.Rows = append(r.Rows, row.judged(o.Ceilings))
	}
	return nil
}

// judged fills in what follows from the times.
func (r Row) judged(c ceiling.Ceilings) Row {
	r.MS = NewStat(scaled(r.ns, 1e-6))
	seconds := r.MS.Median / 1e3
	bytes := float64(r.Bytes)
	r.GBs, r.GFLOPs = bytes/seconds/1e9, r.Products/seconds/1e9
	floor, compute := c.Floor(bytes, r.Products)
	r.CeilingPercent = 100 * floor.Seconds() / seconds
	r.Bound = "memory"
	if compute {
		r.Bound = "compute"
	}
	return r
}

// twin returns the linked kernel that is the same as the plugin's, or nil.
func twin(k core.Kernel, linked []core.Kernel) core.Kernel {
	info := k.Info()
	i := slices.IndexFunc(linked, func(l core.Kernel) bool {
		return l.Info().Name == info.Name && l.Info().Op == info.Op
	})
	if i < 0 {
		return nil
	}
	return linked[i]
}
