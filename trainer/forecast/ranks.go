package forecast

import "time"

// Ranks is what a forecast for several machines is made of, each with one rank that has the rows of the Run: with more
// machines a step has more rows.
type Ranks struct {
	Step      time.Duration // of one rank, as measured or forecast
	Bandwidth float64       // bytes that a machine sends in a second, while it receives as many
	Element   int           // bytes of a gradient on the wire: 4, or 2 for bfloat16
	Shard     bool          // the optimizer's state is shared out
}

// OfRanks is the forecast for a number of ranks.
type OfRanks struct {
	Ranks      int     `json:"ranks"`
	Step       float64 `json:"step_s"`
	Waits      float64 `json:"waits_s"` // of that, for the network
	Tokens     float64 `json:"tokens_per_s"`
	Efficiency float64 `json:"efficiency"` // tokens of a second, by as many times those of one rank
	Bytes      int64   `json:"bytes"`      // of memory, of each rank
}

const (
	// backward is the share of a step in which gradients become complete one after the other, and hidden the share of
	// it that a network is of use in: the first gradients come late in it. Neither was fitted to measurements.
	backward, hidden = 0.6, 0.9
	// latency is what a collective takes besides its bytes, for each time that the ranks double.
	latency = 50 * time.Microsecond
	bucket  = 4 << 20 // bytes of gradients that one takes
)

// Ranks forecasts the steps of so many ranks. What all of them have is summed by two collectives: each rank sends all
// but its own share of its gradients, and then all but the others' of the sums.
func (f *Forecast) Ranks(n int, r Ranks, moments int64) OfRanks {
	o := OfRanks{Ranks: n, Bytes: f.Bytes()}
	if n > 1 {
		const sets = 6 // of buckets that are under way, in and out
		o.Bytes += sets * min(bucket, 4*f.Trainable)
		if r.Shard {
			o.Bytes -= moments * int64(n-1) / int64(n)
		}
		share := float64(n-1) / float64(n)
		doublings := 0
		for k := 1; k < n; k *= 2 {
			doublings++
		}
		buckets := (4*f.Trainable + bucket - 1) / bucket
		collective := func(element int) float64 {
			return share*float64(f.Trainable)*float64(element)/r.Bandwidth + latency.Seconds()*float64(int(buckets)*doublings)
		}
		first := collective(r.Element)
		second, beside := first, first
		if r.Shard { // weights are not rounded, and spread after the update
			second = collective(4)
		} else {
			beside += second
		}
		tail := (first + second) / float64(max(1, buckets)) // of the last bucket nothing is hidden
		o.Waits = max(tail, beside-backward*hidden*r.Step.Seconds())
		if r.Shard {
			o.Waits += second
		}
	}
	o.Step = r.Step.Seconds() + o.Waits
	o.Tokens = float64(n*f.Tokens) / o.Step
	o.Efficiency = r.Step.Seconds() / o.Step
	return o
}
