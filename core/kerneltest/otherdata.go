package kerneltest

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
)

// otherDataKind is the kind of the case that runs calls of all kinds of use, each with data that no other has, and
// otherDataLimit by how many bytes all of them together may let a process grow.
const (
	otherDataKind  = "memory over calls with other data"
	otherDataLimit = 256 << 10
)

// otherDataCalls are how many calls of each kind of use have so many tokens: one, some, and so many that kernels may
// have other code.
var otherDataCalls = []struct{ tokens, calls int }{{1, 64}, {growthTokens, 8}, {1030, 16}}

// wideCalls are those with weights of which a copy shows.
const wideCalls = 16

// otherData finds a kernel that keeps something of each call in cases that growth, which runs one call again and
// again, does not have: what it made of data that it knows by a checksum, as weights that a run changes at each step,
// or ranges of keys, which differ in each batch; and what it never gives back in a kind of use, with one token or
// with many, or where it adds to outputs.
func (t *trial) otherData(ctx context.Context) error {
	process, ok := t.kernel.(Process)
	if !ok {
		return skipf("the kernel has no process of its own")
	}
	// Before the first, nothing is there that is made once. A heap of 160 MiB was seen to grow in four more, less each
	// time, until it had its size.
	const tries = 12
	least, seed := int64(0), uint64(0)
	for try := range tries {
		had, err := held(process)
		if err != nil {
			return err
		}
		for _, f := range t.usesOfAllTypes() {
			if err := t.runOtherData(ctx, f, &seed); err != nil {
				return fmt.Errorf("%v: %w", f, err)
			}
		}
		has, err := held(process)
		if err != nil {
			return err
		}
		if by := has.Memory - had.Memory; try <= 1 || by < least {
			least = by
		}
		if try > 0 && least <= otherDataLimit {
			break
		}
	}
	if t.Share = max(float64(least)/otherDataLimit, 0); least > otherDataLimit {
		t.fail(Violation{Text: fmt.Sprintf("the process grows by %d bytes over some calls of each kind of use, none of "+
			"which has the data of another, limit %d: does it keep what it makes of each, or give nothing back with one "+
			"token, with many, or where it adds to its outputs?", least, otherDataLimit)})
	}
	return nil
}

// usesOfAllTypes are all kinds of use in the trial's storage type, and one in each of the others.
func (t *trial) usesOfAllTypes() (all []core.Facts) {
	for _, d := range storage() {
		for _, f := range kinds(t.Op, d) {
			if f, ok := fit(t.kernel.Supports, f); ok {
				all = append(all, f)
				if d != t.Facts.DType {
					break
				}
			}
		}
	}
	return all
}

// runOtherData runs the calls of one kind of use, each with the data of another seed.
func (t *trial) runOtherData(ctx context.Context, f core.Facts, seed *uint64) error {
	for _, n := range otherDataCalls {
		for range n.calls {
			if err := t.runSeeded(ctx, f, n.tokens, seed); err != nil {
				return err
			}
		}
	}
	for range wideCalls {
		if err := t.runSeeded(ctx, lasting(t.kernel, f), 1, seed); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) runSeeded(ctx context.Context, f core.Facts, tokens int, seed *uint64) error {
	*seed++
	one := *t
	one.of = specialCase(t.Op, f, otherDataKind, tokens)
	one.of.Seed = *seed
	return one.withCalls(ctx, t.kernel, func(calls []*core.Call) error {
		if len(calls) == 1 {
			return nil // it has been run
		}
		if c := calls[1]; *seed%2 == 0 {
			c.Add = make([]bool, len(c.Out))
			for i, a := range tensors(c.Sig.Out) {
				c.Add[i] = a.DType == core.Float32 && t.kernel.Info().CanAdd(a.Name, tokens)
			}
		}
		return runAll(ctx, t.kernel, calls[1:], 1)
	})
}
