package opbench

import (
	"context"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
)

const (
	// batch is how long the calls of one turn take together at least: many times what it
	// takes to read the clock.
	batch = 100 * time.Microsecond
	// maxReps bounds the calls of one turn.
	maxReps = 1000
	// settled is a call so long that what it finds at its start does not matter: the other
	// side still awake, its own asleep. Before a shorter one is measured, it runs once.
	settled = 5 * time.Millisecond
)

// alternate runs the sides in turn, in every other round backwards. It returns the
// nanoseconds of a call, for each side one value a round, and how many calls of a turn
// that is the mean of. Each side runs before, which touches all memory.
func alternate(ctx context.Context, sides []func() error, rounds int) (ns [][]float64, reps int, err error) {
	longest := time.Duration(0)
	for _, run := range sides {
		took, err := warm(run)
		if err != nil {
			return nil, 0, err
		}
		longest = max(longest, took)
	}
	reps = int(min(max(batch/longest, 1), maxReps))
	ns = make([][]float64, len(sides))
	for round := range rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			if err := ctx.Err(); err != nil {
				return nil, 0, err
			}
			took, err := turn(sides[i], reps, longest < settled)
			if err != nil {
				return nil, 0, err
			}
			ns[i] = append(ns[i], took)
		}
	}
	return ns, reps, nil
}

// warm runs a call at least twice, a short one some more, and returns the least time,
// which is not 0.
func warm(run func() error) (time.Duration, error) {
	least := time.Duration(0)
	for i, begin := 0, clock.Now(); i < 2 || i < 10 && clock.Since(begin) < settled; i++ {
		start := clock.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if took := max(clock.Since(start), 1); i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// turn returns the mean time of a call in nanoseconds.
func turn(run func() error, reps int, settle bool) (float64, error) {
	if settle {
		if err := run(); err != nil {
			return 0, err
		}
	}
	start := clock.Now()
	for range reps {
		if err := run(); err != nil {
			return 0, err
		}
	}
	return float64(clock.Since(start)) / float64(reps), nil
}

// runner returns a function that makes the calls, one after the other.
func runner(ctx context.Context, k core.Kernel, calls ...*core.Call) func() error {
	return func() error {
		for _, c := range calls {
			if err := core.Run(ctx, k, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// arena is memory whose tensors are freed together.
type arena struct {
	core.Memory
	blocks [][]byte
}

// Alloc implements core.Memory.
func (a *arena) Alloc(n int) ([]byte, error) {
	b, err := a.Memory.Alloc(n)
	if err == nil {
		a.blocks = append(a.blocks, b)
	}
	return b, err
}

func (a *arena) freeAll() {
	for _, b := range a.blocks {
		a.Free(b)
	}
	a.blocks = nil
}
