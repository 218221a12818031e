package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// TestRanksWaitForWhatTheNetworkCannotHide: by hand, for a step of one second of which the update takes 0.1, and whose
// gradients of 40 buckets become complete in equal steps from 0.3 to 0.9 s, or the last quarter of them
// at 0.9 s, or the last is half a bucket.
func TestRanksWaitForWhatTheNetworkCannotHide(t *testing.T) {
	const (
		bucket = 1 << 20 // elements
		all    = 40 * bucket
		second = 1e11 // operations, at the nominal ceilings
		bytes  = 20e9
	)
	even := []autograd.Complete{{After: core.Work{Products: 0.3 * second}}}
	for range 40 {
		even = append(even, autograd.Complete{Elems: bucket, After: core.Work{Products: 0.6 / 40 * second}})
	}
	late := append(append([]autograd.Complete{}, even[:31]...),
		autograd.Complete{Elems: 10 * bucket, After: core.Work{Products: 0.15 * second}})
	half := append(append([]autograd.Complete{}, even[:40]...),
		autograd.Complete{Elems: bucket / 2, After: core.Work{Products: 0.6 / 40 * second}})
	rate := func(wire float64) float64 { // of a network on which one collective of two ranks takes so long a bucket
		return 0.5 * 4 * bucket / (wire - latency) / payload
	}
	for _, tt := range []struct {
		name      string
		completes []autograd.Complete
		n         int
		r         Ranks
		step      float64
	}{
		{"one", even, 1, Ranks{Bandwidth: 1, Element: 4}, 1},
		{"two, fast: the last bucket is waited for", even, 2, Ranks{Bandwidth: rate(0.005), Element: 4}, 1.01},
		{"two, fast: half a bucket is waited for", half, 2, Ranks{Bandwidth: rate(0.005), Element: 4}, 1.005},
		{"two, slow: half a bucket comes last", half, 2, Ranks{Bandwidth: rate(0.05), Element: 4}, 0.315 + 3.95 + 0.1},
		{"two, slow: all come after the first", even, 2, Ranks{Bandwidth: rate(0.05), Element: 4}, 0.315 + 4 + 0.1},
		{"two, slow, half the bytes", even, 2, Ranks{Bandwidth: rate(0.05), Element: 2}, 0.315 + 2 + 40*latency + 0.1},
		{"two, the last quarter is late", late, 2, Ranks{Bandwidth: rate(0.005), Element: 4}, 1.1},
		{"four have one and a half of the bytes, and two delays", even, 4, Ranks{Bandwidth: rate(0.05), Element: 4},
			0.315 + 80*(1.5*(0.05-latency)+2*latency) + 0.1},
		{"two, shared out: the second collective is behind the update, which is half", even, 2,
			Ranks{Bandwidth: rate(0.005), Element: 4, Shard: true}, 0.905 + 0.05 + 0.2},
		{"two, shared out, and saved by the first", even, 2,
			Ranks{Bandwidth: rate(0.005), Element: 4, Shard: true, Saves: true}, 0.905 + 0.05 + 0.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Forecast{Trainable: all, Tokens: 1000, Memory: []Part{{"weights", 2e9}}, accumulate: 1}
			f.completes = tt.completes
			tt.r.Step, tt.r.Threads = time.Second, 2
			if tt.n > 1 { // a thread of two carries the bytes of both collectives, out and in
				of := float64(2*tt.r.Element) / 8
				if tt.r.Shard {
					of = float64(tt.r.Element+4) / 8
				}
				tt.step += of * carrying * 8 * all * 2 * float64(tt.n-1) / float64(tt.n) / 2
			}
			const moments = 0.1*bytes/2 - 8*all // by which the update moves the bytes of 0.1 s
			got := f.Ranks(tt.n, tt.r, moments)
			if !(math.Abs(got.Step-tt.step) <= 1e-6) || !(math.Abs(got.Waits) <= got.Step) {
				t.Errorf("a step takes %g s, want %g", got.Step, tt.step)
			}
			if !(math.Abs(got.Efficiency-1/tt.step) <= 1e-6) || got.Ranks != tt.n {
				t.Errorf("%d ranks have an efficiency of %g, want that of a step of %g s", got.Ranks, got.Efficiency, tt.step)
			}
			if want := float64(tt.n) * 1000 / tt.step; !(math.Abs(got.Tokens-want) <= 1e-5*want) {
				t.Errorf("%g tokens/s, want %g", got.Tokens, want)
			}
			memory := int64(2e9)
			if tt.n > 1 {
				memory += 9 * 4 * bucket
			}
			if tt.r.Shard {
				memory -= moments / 2
			}
			if tt.r.Saves {
				memory += moments
			}
			if got.Bytes != memory {
				t.Errorf("%d bytes of memory, want %d", got.Bytes, memory)
			}
		})
	}
}
