package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/placement"
)

// Options say what to measure.
type Options struct {
	trainer.Config // the training whose step is measured: what of it makes a difference to a step

	ModelJSON []byte   // a config.json, for random weights, where there is no Model
	Steps     int      // measured steps of each variant; before each it makes one that is not, and one more warms up
	Kernels   []string // the variants, as trainer.Config has one

	// ProductRate is a rate of matrix products in operations per second that something else
	// has reached on this machine, such as a BLAS, if it is higher than what is measured: the
	// floor of a step then has that. 0 for none.
	ProductRate float64

	// Ceilings measures those of this machine, for so long or a little more; nil to do
	// without. It is called before the steps, after them, and, to take no time, after every
	// round between.
	Ceilings func(ctx context.Context, long time.Duration) (ceiling.Ceilings, error)

	Registry *core.Registry  // the kernels; nil for none
	Linked   *core.Registry  // those of variants that begin with LinkedPrefix; nil for none
	Memory   core.Memory     // parameters, activations and gradients; nil for the Go heap
	Measure  measure.Options // how auto measures the kernels
	Progress func(Progress)  // called after every step; may be nil
}

// Progress is a step that was made.
type Progress struct {
	Kernels string        // the variant
	Round   int           // from 1; 0 is the warm-up
	Rounds  int           // in all
	Step    time.Duration // how long it took
}

// learningRate is small, so that the losses of all variants stay comparable, and not
// zero, so that the optimizer does its work.
const learningRate = 1e-4

func (o Options) validate() error {
	switch {
	case o.Steps < 1:
		return fmt.Errorf("bench: %d steps, must be at least 1", o.Steps)
	case len(o.Kernels) == 0:
		return fmt.Errorf("bench: no variants; name selections of kernels, such as none and auto")
	case o.Model == "" && len(o.ModelJSON) == 0:
		return fmt.Errorf("bench: neither a model folder nor a config.json is given")
	}
	for i, k := range o.Kernels {
		if slices.Contains(o.Kernels[:i], k) {
			return fmt.Errorf("bench: variant %s is named twice", k)
		}
	}
	if err := o.Config.Validate(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// checkKernels reports a name that nobody has, and a run that cannot be read, before anything is measured.
func (o Options) checkKernels() error {
	for _, variant := range o.Kernels {
		reg, selection := o.kernelsOf(variant)
		sel, err := core.ParseSelection(selection)
		switch {
		case err != nil:
		case sel.From != "":
			_, err = placement.Read(sel.From)
		default:
			_, err = reg.CheckNames(sel)
		}
		if err != nil {
			return fmt.Errorf("bench: variant %s: %w", variant, err)
		}
	}
	return nil
}

// Run builds one model for each variant, all with equal weights, lets each make one step
// to warm up, and then measures: in every round each variant makes two steps on the same
// batch, of which the second counts, and every other round goes through the variants
// backwards. While it runs, all of the program computes with its number of threads. When
// ctx ends, so does Run, with its error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Memory == nil {
		o.Memory = autograd.Heap{}
	}
	o.Config = o.WithDefaults()
	o.Registry = cmp.Or(o.Registry, core.NewRegistry())
	o.Linked = cmp.Or(o.Linked, core.NewRegistry())
	if err := o.checkKernels(); err != nil {
		return nil, err
	}
	release, err := simd.Use(o.Threads)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer release()

	limits := &limits{measure: o.Ceilings}
	if err := limits.look(ctx, time.Second); err != nil {
		return nil, err
	}
	variants, err := o.measure(ctx, limits)
	defer func() {
		for _, v := range variants {
			v.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := limits.look(ctx, time.Second); err != nil {
		return nil, err
	}
	return newResult(o, variants, limits.best), nil
}

// limits are the best ceilings that were measured so far.
type limits struct {
	measure func(context.Context, time.Duration) (ceiling.Ceilings, error) // nil for none
	best    ceiling.Ceilings
}

// look measures once more, if ceilings are asked for.
func (l *limits) look(ctx context.Context, long time.Duration) error {
	if l.measure == nil {
		return nil
	}
	c, err := l.measure(ctx, long)
	l.best = l.best.Best(c)
	return err
}

// measure sets the variants up and has them make their steps. They are to be closed, also
// after an error.
func (o Options) measure(ctx context.Context, limits *limits) ([]*variant, error) {
	var variants []*variant
	batches := rand.New(rand.NewPCG(o.Seed, 1))
	var warmUp []data.Batch
	idle := footprint()
	before := idle
	for _, selection := range o.Kernels {
		v, err := newVariant(ctx, o, selection)
		if err != nil {
			return variants, fmt.Errorf("bench: variant %s: %w", selection, err)
		}
		variants = append(variants, v)
		if reg, _ := o.kernelsOf(selection); reg == o.Registry { // its plugins are needed in every round
			o.Measure.Placed = append(o.Measure.Placed, v.report.Actions...)
		}
		if warmUp == nil {
			warmUp = o.randomBatches(batches, v.model.Vocab())
		}
		memory.GiveBack() // what it took to make the model, as a run gives it back
		if err := v.warmUp(ctx, o, warmUp); err != nil {
			return variants, err
		}
		after := footprint()
		if before > 0 && after > 0 {
			v.peak = idle + max(after-before, 0)
		}
		before = after
	}
	for round := 1; round <= o.Steps; round++ {
		if between(round, o.Steps) {
			if err := limits.look(ctx, 0); err != nil {
				return variants, err
			}
		}
		b := o.randomBatches(batches, variants[0].model.Vocab())
		for _, v := range order(variants, round) {
			if err := v.turn(ctx, o, b, round); err != nil {
				return variants, err
			}
		}
	}
	return variants, nil
}

// between reports whether to look at the ceilings before a round: four times in all, evenly spread, or before each but
// the first.
func between(round, rounds int) bool {
	const parts = 5
	return round > 1 && parts*(round-1)/rounds > parts*(round-2)/rounds
}

// order returns the variants as one round goes through them.
func order(variants []*variant, round int) []*variant {
	if round%2 == 1 {
		return variants
	}
	back := slices.Clone(variants)
	slices.Reverse(back)
	return back
}

// randomBatches makes those of a step.
func (o Options) randomBatches(rng *rand.Rand, vocab int) []data.Batch {
	all := make([]data.Batch, o.Accumulate)
	for i := range all {
		all[i] = randomBatch(rng, o.Batch, o.Seq, vocab)
	}
	return all
}

// randomBatch fills rows of one document each with random tokens.
func randomBatch(rng *rand.Rand, b, s, vocab int) data.Batch {
	n := b * s
	out := data.Batch{B: b, S: s, IDs: make([]int32, n), Positions: make([]int32, n), Segments: make([]int32, n)}
	for i := range n {
		out.IDs[i], out.Positions[i], out.Segments[i] = rng.Int32N(int32(vocab)), int32(i%s), 1
	}
	out.Labels = out.IDs
	return out
}
