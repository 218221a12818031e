// Package kerneltest is the conformance kit for kernels: it vets an implementation of an
// op against package reference, forward and every gradient. Authors of plugins run it
// in a test, users run it on a plugin that somebody else built:
//
//	func TestKernel(t *testing.T) { kerneltest.Run(t, kernel{}, kerneltest.Cases(core.SwiGLU)) }
//	err := kerneltest.Check(k, kerneltest.Cases(core.SwiGLU))
//	report, err := kerneltest.Examine(ctx, k, kerneltest.Options{})
//
// Each case gives the kernel random, non-uniform data, also as upstream gradients, in
// tensors that start anywhere and lie between guard bytes. It checks that
//
//   - every output is as close to the reference as float32 arithmetic on that storage
//     type can be expected to come (see limit), with NaN and infinity in the same places;
//   - every element of every output is written, and nothing else: no input, no guard;
//   - the same call twice gives the same bits;
//   - facts that the kernel does not support are refused with core.ErrNotSupported, which
//     skips the case.
//
// Examine adds what single calls do not show: results that depend on earlier calls or on
// the number of threads, or differ now and then, errors that add up over 32 layers, inputs
// that may only be read, memory that grows, a process that dies; and it measures latency.
// "tune kernels verify" prints its Report, and docs/verify.md explains it.
package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
	osmemory "github.com/seed98097648/tune/internal/os/memory"
)

// Case is one use of an op on reproducible random data.
type Case struct {
	Name      string
	Kind      string // what the case is about, such as "one token"; for tables
	Op        core.Op
	Facts     core.Facts
	Tokens    int    // T
	Positions int    // P, rows of the rope tables; 0 for other ops
	Seed      uint64 // of the random data
	// Edit, when set, changes the inputs after they were filled: the tensors of both
	// passes by name, without those that the forward pass saves.
	Edit func(in map[string][]core.Tensor)

	aligned bool // all tensors start at a multiple of 64 bytes, as in a run
}

// Check runs the cases on k and joins all violations; each says in which case, pass and
// tensor, by how much and where. It wraps core.ErrWrongResult where a result is wrong.
// Cases that k does not support are skipped, but one that supports no case at all is
// an error, because then nothing was checked.
func Check(k core.Kernel, cases []Case) error {
	var violations []error
	checked := 0
	for _, c := range cases {
		r := result(context.Background(), k, c, nil)
		if r.Status != Skipped {
			checked++
		}
		violations = append(violations, r.Err())
	}
	if checked == 0 {
		return fmt.Errorf("kerneltest: %s supports none of the %d cases: %w",
			k.Info().Name, len(cases), core.ErrNotSupported)
	}
	return errors.Join(violations...)
}

// Run is Check with one subtest for each case.
func Run(t *testing.T, k core.Kernel, cases []Case) {
	t.Helper()
	osmemory.Spend()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			r := result(t.Context(), k, c, nil)
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Status == Skipped {
				t.Skip(r.Reason)
			}
		})
	}
}

// Verify checks k with exactly these facts on three tokens (of rope twelve, at positions
// from 0 to 8,193), forward and every gradient.
// The facts' sizes are kept, except that of large weights it takes a part: fewer experts
// of moe_experts, a smaller vocabulary of linear_cross_entropy, but at least two. It needs
// about ten times the memory of the weights that are left. Errors wrap
// core.ErrWrongResult and give the numbers, or core.ErrNotSupported. A panic of the kernel is an
// error of the first kind, unless a goroutine of its own panics.
func Verify(ctx context.Context, k core.Kernel, f core.Facts) (err error) {
	info := k.Info()
	defer func() {
		if p := recover(); p != nil {
			if other, ok := p.(interface{ Cause() any }); ok { // of core/vector, with the stack of another goroutine
				p = other.Cause()
			}
			err = fmt.Errorf("kerneltest: %s with %v: %w: it panics: %v", info.Name, f, core.ErrWrongResult, p)
		}
	}()
	if err := k.Supports(f); err != nil {
		return err
	}
	u := opdef.Use{Facts: f, Tokens: 3}
	if change := ops.Of(info.Op).Verify; change != nil {
		change(&u)
	}
	c := Case{Name: "verify", Op: info.Op, Facts: u.Facts, Tokens: u.Tokens, Positions: u.Positions, Edit: u.Edit,
		Seed: 1}
	r := result(ctx, k, c, nil)
	if r.Status == Skipped { // the facts with fewer experts, or another question about the same
		return fmt.Errorf("kerneltest: %s with %v: %s: %w", info.Name, c.Facts, r.Reason, core.ErrNotSupported)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("kerneltest: %s with %v: %w", info.Name, c.Facts, err)
	}
	return nil
}

// result runs one case, with inputs in memory of the caller's choice as prepared.run has them.
func result(ctx context.Context, k core.Kernel, c Case, inputs core.Memory) (r Result) {
	r = newResult(c)
	if accepted(k.Supports(c.Facts), c.Facts, &r) {
		prepare(ctx, c, passes(k)).run(ctx, k, inputs, &r)
	}
	return r
}

func newResult(c Case) Result {
	return Result{Case: c.Name, Kind: c.Kind, Op: c.Op, Facts: c.Facts, Tokens: c.Tokens, Status: OK}
}

// accepted skips or fails a case unless the kernel's answer is that it supports the facts.
func accepted(err error, f core.Facts, r *Result) bool {
	if errors.Is(err, core.ErrNotSupported) {
		r.Refused = true
		r.skip("%v", err)
	} else if err != nil {
		err = fmt.Errorf("supports %v: error %w; want one that wraps ErrNotSupported", f, err)
		r.fail(general(err))
	}
	return err == nil
}

// passes are those that the kernel offers.
func passes(k core.Kernel) []core.Pass {
	if k.Info().Backward {
		return []core.Pass{core.Forward, core.Backward}
	}
	return []core.Pass{core.Forward}
}
