package forecast

import (
	"math"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/distributed"
)

// Ranks is what a forecast for several machines is made of, each with one rank that has the rows of the Run: with more
// machines a step has more rows.
type Ranks struct {
	Step      time.Duration // of one rank, as measured or forecast
	Bandwidth float64       // bytes that a machine's network sends in a second, while it receives as many
	Element   int           // bytes of a gradient on the wire: 4, or 2 for bfloat16
	Shard     bool          // the optimizer's state is shared out
	Saves     bool          // checkpoints are written
	Threads   int           // that each rank computes with
}

// OfRanks is the forecast for a number of ranks.
type OfRanks struct {
	Ranks      int     `json:"ranks"`
	Step       float64 `json:"step_s"`
	Waits      float64 `json:"waits_s"` // of that, for the network
	Tokens     float64 `json:"tokens_per_s"`
	Efficiency float64 `json:"efficiency"` // tokens of a second, by as many times those of one rank
	Bytes      int64   `json:"bytes"`      // of memory, of the first rank, which has no less than others
}

const (
	// payload is what gradients have of a network's bandwidth: TCP over Ethernet carries 1,448 of 1,538 bytes.
	payload = 1448. / 1538
	// latency is what a collective takes besides its bytes, for each time that the ranks double, in seconds. It matters
	// where ranks are many, which was not measured.
	latency = 50e-6
	// carrying is the time of one thread that a byte takes which is sent or received, beside the step's own work: it is
	// copied some ten times on its way from gradient to gradient. Fitted to two ranks on one Zen 3; see
	// docs/distributed.md.
	carrying = 1e-9
)

// Ranks forecasts the steps of so many ranks, for an optimizer that remembers so many bytes. The step takes as long as
// was measured, and each part of it as much of that as it has of the floors. What all ranks have is summed by two
// collectives: each sends all but its own share of its gradients, and then all but the others' of the sums.
func (f *Forecast) Ranks(n int, r Ranks, moments int64) OfRanks {
	o := OfRanks{Ranks: n, Bytes: f.Bytes(), Step: r.Step.Seconds()}
	if n > 1 {
		o.Bytes += distributed.BufferBytes(n, int(f.Trainable))
		w, t := newWire(n, f.Trainable, r.Bandwidth), f.timeline(r.Step.Seconds(), moments)
		first, second := w.collective(r.Element), w.collective(r.Element)
		sent := 2 * r.Element // bytes for each element, but for this rank's own
		if r.Shard {          // weights are not rounded, and spread after the update
			second, sent = w.collective(4), r.Element+4
			o.Waits = w.last(t.completes, first) - t.run + float64(w.buckets)*second
			o.Bytes -= Elsewhere(moments, n, r.Saves)
			o.Step -= w.others * t.update
		} else {
			o.Waits = max(0, w.last(t.completes, first+second)-t.run)
		}
		moved := 2 * w.others * float64(f.Trainable*int64(sent))
		o.Step += carrying * moved / float64(max(1, r.Threads))
	}
	o.Step += o.Waits
	o.Tokens = float64(n*f.Tokens) / o.Step
	o.Efficiency = r.Step.Seconds() / o.Step
	return o
}

// Elsewhere returns how much less memory a rank of n has where an optimizer's state of so many bytes is shared out.
// One that saves, which is the first, has all of it besides while it writes a checkpoint: the result is negative.
func Elsewhere(state int64, n int, saves bool) int64 {
	less := state * int64(n-1) / int64(n)
	if saves {
		less -= state
	}
	return less
}

// moment is when so many elements more of the gradients are complete, in seconds after a pass has begun.
type moment struct {
	elems int
	at    float64
}

// timeline is the last pass of a step, whose gradients are summed meanwhile, and the update behind it, in seconds.
type timeline struct {
	completes   []moment
	run, update float64
}

// timeline shares out the time of a step.
func (f *Forecast) timeline(step float64, moments int64) timeline {
	floor := func(w core.Work) float64 {
		d, _ := nominal.Floor(float64(w.Bytes), w.Products)
		return d.Seconds()
	}
	t := timeline{update: floor(f.update(moments))}
	for _, c := range f.completes {
		t.run += floor(c.After)
		t.completes = append(t.completes, moment{c.Elems, t.run})
	}
	scale := step / (float64(f.accumulate)*t.run + t.update)
	for i := range t.completes {
		t.completes[i].at *= scale
	}
	t.run *= scale
	t.update *= scale
	return t
}

// wire is the network between machines, which carries one bucket of gradients after the other.
type wire struct {
	others    float64 // share of a bucket that is not this rank's own
	elems     int     // of a bucket
	buckets   int
	bandwidth float64
	delay     float64 // of a collective
}

func newWire(n int, trainable int64, bandwidth float64) wire {
	w := wire{others: float64(n-1) / float64(n), elems: distributed.BucketElems(n, int(trainable)),
		bandwidth: bandwidth * payload, delay: latency * math.Ceil(math.Log2(float64(n)))}
	w.buckets = (int(trainable) + w.elems - 1) / w.elems
	return w
}

// collective returns how long one takes of a whole bucket whose elements have so many bytes.
func (w wire) collective(element int) float64 {
	return w.others*float64(w.elems*element)/w.bandwidth + w.delay
}

// last returns when the last bucket has come, each of which takes so long and is sent when it is complete and those
// before it have come.
func (w wire) last(completes []moment, each float64) float64 {
	free, filled := 0., 0
	for _, m := range completes {
		for filled += m.elems; filled >= w.elems; filled -= w.elems {
			free = max(free, m.at) + each
		}
	}
	if end := completes[len(completes)-1].at; filled > 0 {
		free = max(free, end) + each*float64(filled)/float64(w.elems)
	}
	return free
}
