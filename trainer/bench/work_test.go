package bench_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/models"
)

// TestWorkIsThatOfTheModel counts the products of the model by hand. Fused attention
// computes its scores once more, for the backward pass, and plain experts have the router's product made again; the
// floor has them once.
func TestWorkIsThatOfTheModel(t *testing.T) {
	r := run(t, options(t, "none", "all"))
	const tokens, hidden, heads, kv, head, vocab = 24, 16, 4, 2, 8, 61
	perToken := 2 * (2*hidden*heads*head + 2*hidden*kv*head) // q, o, k and v of two layers
	perToken += 3 * hidden * 24                              // the dense layer
	perToken += hidden*4 + 2*3*hidden*12                     // the router and two experts
	perToken += hidden * vocab                               // the logits, tied or not
	pairs := 2 * 12 * 13 / 2                                 // of query and key, in two rows
	scores := 2 * 2 * pairs * heads * head                   // of two layers
	all := float64(3 * (2*tokens*perToken + 2*scores))
	if want := all - 3*2*2*hidden*vocab; r.Floor.Products != want { // the last position of two rows has no target
		t.Errorf("a step needs %g operations in products, want %g", r.Floor.Products, want)
	}
	again := []int{2 * tokens * hidden * 4, scores}
	for i, v := range r.Runs {
		if want := all + float64(again[i]); v.Products.Flops != want {
			t.Errorf("%s: %g operations in products, want %g", v.Kernels, v.Products.Flops, want)
		}
		if p := v.Products; p.Share <= 0 || p.Share >= 1 || p.Rate <= 0 || p.OfCeiling != 0 {
			t.Errorf("%s: %+v without ceilings", v.Kernels, p)
		}
		if v.Boundary != (bench.Boundary{}) {
			t.Errorf("%s: %+v, but no kernel is in another process", v.Kernels, v.Boundary)
		}
		for _, c := range append(append([]bench.Call{v.Update}, v.KernelCalls...), v.PlainCalls...) {
			if c.Work.Bytes <= 0 {
				t.Errorf("%s: %s %s moves %d bytes", v.Kernels, c.Op, c.Pass, c.Work.Bytes)
			}
		}
	}
}

// TestGradientCheckpointingIsShown: layers are computed again, in less memory and with the
// same losses, and the result says so.
func TestGradientCheckpointingIsShown(t *testing.T) {
	o := options(t, "none")
	plain := run(t, o)
	o.GradientCheckpointing = true
	r := run(t, o)
	again := slices.ContainsFunc(r.Runs[0].PlainCalls, func(c bench.Call) bool {
		return c.Op == "linear" &&
			c.Pass == "recompute" && c.Work.Products > 0
	})
	if !again || !r.Config.GradientCheckpointing || plain.Config.GradientCheckpointing {
		t.Errorf("%+v with the calls %+v", r.Config, r.Runs[0].PlainCalls)
	}
	if r.Runs[0].Memory.Program >= plain.Runs[0].Memory.Program {
		t.Errorf("%d bytes, without it %d", r.Runs[0].Memory.Program, plain.Runs[0].Memory.Program)
	}
	if !strings.Contains(r.Table(), "with gradient checkpointing\n") || strings.Contains(plain.Table(), "checkpointing") {
		t.Error("the table does not say so")
	}
	if !slices.Equal(r.Runs[0].Losses, plain.Runs[0].Losses) {
		t.Errorf("losses %v, without it %v", r.Runs[0].Losses, plain.Runs[0].Losses)
	}
}

func TestTheBestOfAllMeasurementsIsTheCeiling(t *testing.T) {
	o := options(t, "all")
	var measured float64
	var took []time.Duration
	o.Ceilings = func(_ context.Context, long time.Duration) (ceiling.Ceilings, error) {
		measured++
		took = append(took, long)
		// a slow machine indeed
		return ceiling.Ceilings{Threads: 1, Bandwidth: 1e5 * measured, Products: 2e6 / measured}, nil
	}
	slow := run(t, o)
	if got, want := slow.Machine.Ceilings, (ceiling.Ceilings{Threads: 1, Bandwidth: 4e5, Products: 2e6}); got != want {
		t.Errorf("the ceilings are %+v, want the best of all measurements each: %+v", got, want)
	}
	if want := []time.Duration{time.Second, 0, 0, time.Second}; !slices.Equal(took, want) {
		t.Errorf("measured for %v, want %v: at both ends, and between three rounds", took, want)
	}
	params := float64(slow.Config.Parameters)
	if f := slow.Floor; f.Rate != 2e6 || f.Bandwidth != 4e5 || f.Bytes != 32*params ||
		!(math.Abs(f.MS/(f.Products/2e3+32*params/4e2)-1) <= 1e-12) {
		t.Errorf("the floor is %+v with %g parameters", f, params)
	}
	if got, want := slow.Runs[0].OverFloor, slow.Runs[0].Step.Median/slow.Floor.MS; got != want || got >= 1 {
		t.Errorf("a step is %g of its floor, want %g", got, want)
	}
	o.Precision = models.BF16
	if f := run(t, o).Floor; f.MS != 0 {
		t.Errorf("products in bfloat16 have the floor %+v of those in float32", f)
	}
	o.ProductRate = 1e9
	if f := run(t, o).Floor; f.Rate != 1e9 {
		t.Errorf("products in bfloat16 have the floor %+v, want that of the rate that was given", f)
	}
	for _, c := range slow.Runs[0].KernelCalls {
		if c.OfCeiling <= 1 {
			t.Errorf("%s %s: %g of the ceiling", c.Op, c.Pass, c.OfCeiling)
		}
	}
}

func TestFewLooksBetweenManyRounds(t *testing.T) {
	o := options(t, "none")
	o.Steps = 12
	looks := 0
	o.Ceilings = func(context.Context, time.Duration) (ceiling.Ceilings, error) {
		looks++
		return ceiling.Ceilings{}, nil
	}
	if run(t, o); looks != 6 {
		t.Errorf("looked %d times, want one at both ends and four in between", looks)
	}
}

func TestRunEndsWhenTheCeilingsCannotBeMeasured(t *testing.T) {
	bad := errors.New("no machine")
	for at := range 4 { // at both ends, and between three rounds
		o := options(t, "none")
		o.Ceilings = func(context.Context, time.Duration) (ceiling.Ceilings, error) {
			at--
			if at < 0 {
				return ceiling.Ceilings{}, bad
			}
			return ceiling.Ceilings{}, nil
		}
		if _, err := bench.Run(t.Context(), o); !errors.Is(err, bad) {
			t.Errorf("error %v, want that of the ceilings", err)
		}
	}
}
