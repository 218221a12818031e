package measure

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

// fakeProbe says how long the runs of a program took, and remembers which ran.
type fakeProbe struct {
	took func(run int, fused bool) (op, neighbours time.Duration)
	runs []bool
	fail error
}

func (p *fakeProbe) Run(_ context.Context, fused bool) (op, neighbours time.Duration, err error) {
	p.runs = append(p.runs, fused)
	op, neighbours = p.took(len(p.runs), fused)
	return op, neighbours, p.fail
}

func TestRoundsGiveMedians(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name          string
		took          func(run int, fused bool) (op, neighbours time.Duration)
		plain, kernel time.Duration
	}{
		{"the op alone", func(_ int, fused bool) (time.Duration, time.Duration) {
			if fused {
				return 2 * ms, 7 * ms
			}
			return 5 * ms, 7 * ms
		}, 5 * ms, 2 * ms},
		{"what the neighbours lose by the kernel is its time", func(_ int, fused bool) (time.Duration, time.Duration) {
			if fused {
				return 2 * ms, 11 * ms
			}
			return 5 * ms, 7 * ms
		}, 5 * ms, 6 * ms},
		{"what they gain is not", func(_ int, fused bool) (time.Duration, time.Duration) {
			if fused {
				return 2 * ms, 6 * ms
			}
			return 5 * ms, 7 * ms
		}, 5 * ms, 2 * ms},
		{"a gain that the fastest runs have not is none", func(run int, fused bool) (time.Duration, time.Duration) {
			if !fused && run%3 != 0 { // somebody else had the cores
				return 10 * ms, 7 * ms
			}
			return 6 * ms, 7 * ms
		}, 10 * ms, 10 * ms},
		{"one lucky run of the neighbours is no loss", func(run int, _ bool) (time.Duration, time.Duration) {
			if run == 4 { // the plain forward's, of the first round that counts
				return 3 * ms, 1 * ms
			}
			return 3 * ms, 7 * ms
		}, 3 * ms, 3 * ms},
		{"the first round and outliers do not count", func(run int, fused bool) (time.Duration, time.Duration) {
			if run <= 2 || run%20 == 0 {
				return 1000 * ms, 1000 * ms
			}
			return 3 * ms, 7 * ms
		}, 3 * ms, 3 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := rounds(t.Context(), &fakeProbe{took: tt.took}, core.Measurement{})
			if err != nil || m.Plain != tt.plain || m.Kernel != tt.kernel {
				t.Errorf("plain %v, kernel %v, %v; want %v and %v", m.Plain, m.Kernel, err, tt.plain, tt.kernel)
			}
		})
	}
}

func TestRoundsAlternateAndEnd(t *testing.T) {
	p := &fakeProbe{took: func(int, bool) (time.Duration, time.Duration) { return 1, 1 }}
	if _, err := rounds(t.Context(), p, core.Measurement{}); err != nil {
		t.Fatal(err)
	}
	if n := len(p.runs); n < 2*fewestRounds || n > 2*(mostRounds+1) {
		t.Errorf("%d runs", n)
	}
	for i := 0; i+3 < len(p.runs); i += 4 {
		if got := [4]bool(p.runs[i : i+4]); got != [4]bool{false, true, true, false} {
			t.Fatalf("the order of two rounds is %v", got)
		}
	}
}

// TestRoundsGoOnWhileTheyLeaveADoubt has kernels whose time changes from run to run, by as much as the machine's
// neighbours can make it.
func TestRoundsGoOnWhileTheyLeaveADoubt(t *testing.T) {
	restless := func(kernel time.Duration) *fakeProbe {
		rng := rand.New(rand.NewPCG(1, 2))
		return &fakeProbe{took: func(_ int, fused bool) (time.Duration, time.Duration) {
			if !fused {
				return 1000, 0
			}
			return kernel + time.Duration(rng.IntN(401)) - 200, 0
		}}
	}
	for name, tt := range map[string]struct {
		probe   *fakeProbe
		sizes   core.Measurement
		longer  bool
		settled bool
	}{
		"much faster":  {probe: restless(700), settled: true},
		"much slower":  {probe: restless(1300), settled: true},
		"at the limit": {probe: restless(970), longer: true},
		"above the limit of what spares memory": {probe: restless(900), settled: true,
			sizes: core.Measurement{PlainBytes: 100 << 20, KernelBytes: 1 << 20, Tokens: 7}},
		"at the limit of what spares memory": {probe: restless(1010), longer: true,
			sizes: core.Measurement{PlainBytes: 100 << 20, KernelBytes: 1 << 20, Tokens: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := rounds(t.Context(), tt.probe, tt.sizes)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(tt.probe.runs)/2 - 1; n > mostRounds != tt.longer || m.Settled() != tt.settled {
				t.Errorf("%d rounds, %+v: settled: %v, want %v", n, m, m.Settled(), tt.settled)
			}
			if m.Doubt < 0.01 || m.Doubt > 0.1 {
				t.Errorf("a doubt of %v", m.Doubt)
			}
			if m.PlainBytes != tt.sizes.PlainBytes || m.KernelBytes != tt.sizes.KernelBytes || m.Tokens != tt.sizes.Tokens {
				t.Errorf("%+v, of %+v", m, tt.sizes)
			}
		})
	}
}

func TestSlowOpsAreRunAFewTimes(t *testing.T) {
	p := &fakeProbe{took: func(int, bool) (time.Duration, time.Duration) {
		time.Sleep(budget)
		return 1, 1
	}}
	if _, err := rounds(t.Context(), p, core.Measurement{}); err != nil {
		t.Fatal(err)
	}
	if want := 2 * (fewestRounds + 1); len(p.runs) != want {
		t.Errorf("%d runs, want %d", len(p.runs), want)
	}
}

func TestRoundsEndWithTheFirstError(t *testing.T) {
	p := &fakeProbe{took: func(int, bool) (time.Duration, time.Duration) { return 1, 1 }, fail: errors.New("broken")}
	if _, err := rounds(t.Context(), p, core.Measurement{}); !errors.Is(err, p.fail) || len(p.runs) != 1 {
		t.Errorf("%v after %d runs, want the error of the first", err, len(p.runs))
	}
}
