package kerneltest

import (
	"context"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
)

// Latency is how long calls with one token take, seen by the caller: mostly what it costs
// to reach the kernel. It is a figure to read, and no case fails by it.
type Latency struct {
	Pass   string        `json:"pass"`
	Calls  int           `json:"calls"`
	Median time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
}

func (t *trial) latency(ctx context.Context) error {
	return t.withCalls(ctx, t.kernel, func(calls []*core.Call) error {
		for _, c := range calls {
			one := []*core.Call{c}
			if err := runAll(ctx, t.kernel, one, max(t.options.Calls/10, 1)); err != nil {
				return err
			}
			times := make([]time.Duration, t.options.Calls)
			for i := range times {
				start := clock.Now()
				if err := runAll(ctx, t.kernel, one, 1); err != nil {
					return err
				}
				times[i] = clock.Since(start)
			}
			slices.Sort(times)
			median, p99 := times[len(times)/2], times[(len(times)-1)*99/100]
			t.Latency = append(t.Latency, Latency{c.Pass.String(), t.options.Calls, median, p99})
		}
		return nil
	})
}
