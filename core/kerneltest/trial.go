package kerneltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// trial is a case that is more than one comparison, while it is run.
type trial struct {
	*Result
	of      Case
	kernel  core.Kernel
	options Options
	memory  *memory // where the kernel's outputs need no copy; freed after the trial
}

// try runs such a case. An error fails it, unless that is a skip.
func try(ctx context.Context, k core.Kernel, c Case, o Options, run func(*trial, context.Context) error) Result {
	r := newResult(c)
	m := newMemory(k)
	defer m.free()
	err := run(&trial{&r, c, k, o, m}, ctx)
	if why := skip(""); errors.As(err, &why) {
		r.skip("%s", why)
	} else if err != nil {
		r.fail(general(err))
	}
	return r
}

// skip says why a case cannot be run.
type skip string

// Error implements error.
func (s skip) Error() string { return string(s) }

func skipf(format string, args ...any) error { return skip(fmt.Sprintf(format, args...)) }

// specialCase is a case on random data that CasesFor does not have. One for a storage type alone
// has several uses.
func specialCase(op core.Op, f core.Facts, kind string, tokens int) Case {
	name := fmt.Sprintf("%s %v T=%d %s", op, f, tokens, kind)
	if f == (core.Facts{DType: f.DType}) {
		name = fmt.Sprintf("%s %v %s", op, f.DType, kind)
	}
	return Case{Name: name, Kind: kind, Op: op, Facts: f, Tokens: tokens,
		Seed: uint64(tokens), Positions: ops.Of(op).Positions}
}

// withCalls gives f a call for each pass that the kernel offers, as Calls makes them but
// with memory as in a training run.
func (t *trial) withCalls(ctx context.Context, k core.Kernel, f func([]*core.Call) error) error {
	out := newMemory(k)
	defer out.free()
	forward, backward, err := calls(ctx, k, t.of, out.orIn(t.options.Inputs), out, true)
	if err != nil {
		return err
	}
	return f([]*core.Call{forward, backward}[:len(passes(k))])
}

// runAll runs each call so many times.
func runAll(ctx context.Context, k core.Kernel, calls []*core.Call, n int) error {
	for range n {
		for _, c := range calls {
			if err := core.Run(ctx, k, c); err != nil {
				return fmt.Errorf("%s: %w", c.Pass, err)
			}
		}
	}
	return nil
}
