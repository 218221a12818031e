package opbench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/clock"
)

// BoundaryOptions say what MeasureBoundary measures: three ways to one kernel of rms_norm.
type BoundaryOptions struct {
	Across   core.Kernel       // in a plugin
	Portable core.Kernel       // in a plugin that is called in the portable way; nil to leave it out
	Linked   core.Kernel       // in this program
	Memory   core.Memory       // for the inputs of large calls
	Calls    int               // round trips of each way
	Rounds   int               // measurements of each size and side
	Bytes    []int             // sizes of the input x, multiples of a row's 4096; nil for 4 KiB to 64 MiB
	CPU      string            // the processor's name, for the result
	Threads  int               // that all kernels compute with, for the result
	Progress func(what string) // called before each part; may be nil
}

// Boundary is what MeasureBoundary measured.
type Boundary struct {
	CPU        string      `json:"cpu"`
	Threads    int         `json:"threads"`
	Kernel     string      `json:"kernel"`
	RoundTrips []RoundTrip `json:"round_trips"`
	Transfers  []Transfer  `json:"tensors"`
	// Copies counts tensors that had to be copied to or from a plugin. With any, the times
	// are not the boundary's own.
	Copies uint64 `json:"copies"`
}

// RoundTrip is the time of a call that computes next to nothing: rms_norm of one token of
// eight elements. Reading the clock is part of it.
type RoundTrip struct {
	Way   string  `json:"way"`
	Calls int     `json:"calls"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
}

// Transfer compares the forward pass of rms_norm in this process and across the boundary,
// for an input of that size; the output has the same.
type Transfer struct {
	Bytes      int     `json:"bytes"`
	Calls      int     `json:"calls_per_round"`
	Rounds     int     `json:"rounds"`
	Linked     Stat    `json:"linked_us"`
	Across     Stat    `json:"across_us"`
	Difference Stat    `json:"difference_us"`      // across less linked, round by round
	Percent    float64 `json:"difference_percent"` // of the linked median
}

const (
	// pause is long enough for both sides of a call to fall asleep.
	pause = time.Millisecond
	// rowBytes is a row of x in a transfer, of 1024 elements.
	rowBytes = 4096
)

var defaultBytes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20}

// MeasureBoundary measures the boundary between processes: round trips, and what a kernel
// loses by it on tensors of several sizes. When ctx ends, so does it, with its error.
func MeasureBoundary(ctx context.Context, o BoundaryOptions) (*Boundary, error) {
	if o.Bytes == nil {
		o.Bytes = defaultBytes
	}
	switch {
	case o.Calls < 1 || o.Rounds < 1:
		return nil, fmt.Errorf("opbench: %d calls and %d rounds, both must be at least 1", o.Calls, o.Rounds)
	case slices.ContainsFunc(o.Bytes, func(n int) bool { return n < rowBytes || n%rowBytes != 0 }):
		return nil, fmt.Errorf("opbench: sizes %v, must be multiples of %d", o.Bytes, rowBytes)
	}
	b := &Boundary{CPU: o.CPU, Threads: o.Threads, Kernel: o.Across.Info().Name}
	before := o.copies()
	err := b.roundTrips(ctx, o)
	if err == nil {
		err = b.transfers(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("opbench: boundary: %w", err)
	}
	b.Copies = o.copies() - before
	return b, nil
}

func (o BoundaryOptions) copies() uint64 {
	return core.HealthOf(o.Across).Copies + core.HealthOf(o.Portable).Copies
}

func (o BoundaryOptions) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// normCase is a use of rms_norm.
func normCase(tokens, dim int) kerneltest.Case {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: dim, Eps: 1e-6, Cast: core.CastBeforeWeight}
	return kerneltest.Case{Op: core.RMSNorm, Facts: f, Tokens: tokens, Seed: 1}
}

// roundTrips measures each way on its own: a side that waits must not disturb another.
func (b *Boundary) roundTrips(ctx context.Context, o BoundaryOptions) error {
	ways := []struct {
		name   string
		kernel core.Kernel
		pause  time.Duration
	}{
		{"linked in", o.Linked, 0},
		{"across, both sides awake", o.Across, 0},
		{"across, after a pause of 1 ms", o.Across, pause},
		{"across, the portable way", o.Portable, 0},
	}
	for _, w := range ways {
		if w.kernel == nil {
			continue
		}
		o.progress("round trip %s", w.name)
		// Everything lies where the plugin writes, which every way can read without a copy.
		m := &arena{Memory: core.OutputsOf(w.kernel, o.Memory)}
		trip, err := roundTrip(ctx, w.kernel, m, o.Calls, w.pause)
		m.freeAll()
		if err != nil {
			return fmt.Errorf("round trip %s: %w", w.name, err)
		}
		trip.Way = w.name
		b.RoundTrips = append(b.RoundTrips, trip)
	}
	return nil
}

// roundTrip makes a tenth of the calls to warm up, and then all of them.
func roundTrip(ctx context.Context, k core.Kernel, m core.Memory, calls int, pause time.Duration) (RoundTrip, error) {
	c, _, err := kerneltest.CallsIn(ctx, k, normCase(1, 8), m, m)
	if err != nil {
		return RoundTrip{}, err
	}
	warm := calls / 10
	us := make([]float64, 0, calls)
	for i := range warm + calls {
		if pause > 0 && i >= warm {
			time.Sleep(pause)
		}
		start := clock.Now()
		if err := core.Run(ctx, k, c); err != nil { // which also ends with ctx
			return RoundTrip{}, err
		}
		if took := clock.Since(start); i >= warm {
			us = append(us, float64(took)/float64(time.Microsecond))
		}
	}
	slices.Sort(us)
	return RoundTrip{Calls: calls, P50: percentile(us, 0.5), P99: percentile(us, 0.99)}, nil
}

func (b *Boundary) transfers(ctx context.Context, o BoundaryOptions) error {
	for _, n := range o.Bytes {
		o.progress("tensors of %s", amount.Bytes(n))
		t, err := o.transfer(ctx, n)
		if err != nil {
			return fmt.Errorf("tensors of %s: %w", amount.Bytes(n), err)
		}
		b.Transfers = append(b.Transfers, t)
	}
	return nil
}

// transfer runs both sides on the same tensors in the same memory.
func (o BoundaryOptions) transfer(ctx context.Context, bytes int) (Transfer, error) {
	in, out := &arena{Memory: o.Memory}, &arena{Memory: core.OutputsOf(o.Across, o.Memory)}
	defer in.freeAll()
	defer out.freeAll()
	c, _, err := kerneltest.CallsIn(ctx, o.Across, normCase(bytes/rowBytes, rowBytes/4), in, out)
	if err != nil {
		return Transfer{}, err
	}
	ns, reps, err := alternate(ctx, []func() error{runner(ctx, o.Linked, c), runner(ctx, o.Across, c)}, o.Rounds)
	if err != nil {
		return Transfer{}, err
	}
	linked, across := scaled(ns[0], 1e-3), scaled(ns[1], 1e-3)
	difference := make([]float64, len(linked))
	for i := range difference {
		difference[i] = across[i] - linked[i]
	}
	t := Transfer{Bytes: bytes, Calls: reps, Rounds: o.Rounds,
		Linked: NewStat(linked), Across: NewStat(across), Difference: NewStat(difference)}
	t.Percent = 100 * t.Difference.Median / t.Linked.Median
	return t, nil
}
