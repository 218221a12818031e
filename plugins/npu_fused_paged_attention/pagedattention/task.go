package pagedattention

import (
	"context"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

const (
	// partTokens is how many tokens of its context a single token meets at a time. It decides in which order sums
	// are added up, so it must not depend on the number of threads, nor on what else is in a call.
	partTokens = 256
	// tileRows is about how many rows of q, over all heads of a group, are a piece of work.
	tileRows = 128
	// leastTile is from how many tokens of a sequence on it is worth it to pack what they see.
	leastTile = 4
	// tileTokens is how many tokens of the context are packed at a time.
	tileTokens = 512
	// serialWork is the number of multiplications below which starting goroutines costs more than it saves.
	serialWork = 1 << 16
)

// task is what some tokens of a sequence have to do with one head of the cache, or, if it is a single one, with
// a part of their context.
type task struct {
	sequence, head int
	token, tokens  int // of q
	position       int // of the first of them
	lo, hi         int // of the context of a single token
	part           int // of Kernel.parts; -1 if it is the only one
	last           bool
}

// plan makes the tasks of a call. Those that are parts of one follow each other.
func (k *Kernel) plan(c *call, queries, lens []int32) (work int) {
	k.tasks = k.tasks[:0]
	parts, t := 0, 0
	for b, n := range queries {
		n, all := int(n), int(lens[b])
		tile := 1
		if n >= leastTile {
			tile = max(leastTile, tileRows/c.group)
		}
		for i, m := max(0, n-all), 0; i < n; i += m { // those before have positions below 0, and see nothing
			m = min(tile, n-i)
			a := task{sequence: b, token: t + i, tokens: m, position: all - n + i, part: -1}
			a.lo, a.hi = c.first(a.position), a.position+m
			work += m * (a.hi - a.lo) * c.facts.Heads * c.facts.HeadDim
			for a.head = range c.facts.KVHeads {
				if n >= leastTile {
					k.tasks = append(k.tasks, a)
				} else {
					parts = k.planParts(a, parts)
				}
			}
		}
		t += n
	}
	if cap(k.parts) < parts {
		k.parts = make([]part, parts)
	}
	k.parts = k.parts[:parts]
	size := partSize(c)
	sums := vector.Grow(&k.sums, parts*size)
	for i := range k.parts {
		k.parts[i] = newPart(c, sums[i*size:][:size])
	}
	return work
}

// planParts makes the tasks of a single token and a head.
func (k *Kernel) planParts(a task, parts int) int {
	lo, hi := a.lo, a.hi
	one := lo/partTokens == (hi-1)/partTokens
	for at := lo; at < hi; at = a.hi {
		a.lo, a.hi, a.part = at, min(hi, (at/partTokens+1)*partTokens), -1
		if !one {
			a.part, a.last = parts, false
			parts++
		}
		a.last = a.hi == hi
		k.tasks = append(k.tasks, a)
	}
	return parts
}

// Forward computes y.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	call := newCall(c)
	queries := c.Input("query_lens").Int32s()
	clear(c.Output("y").Data) // of tokens that see nothing
	threads := vector.Threads()
	if k.plan(call, queries, c.Input("seq_lens").Int32s()) < serialWork {
		threads = 1
	}
	k.run(ctx, call, threads, func(w *worker, i int) {
		switch t := k.tasks[i]; {
		case t.tokens > 1:
			w.tile(t)
		case t.part < 0:
			w.single(t)
		default:
			w.partOf(t, &k.parts[t.part])
		}
	})
	if len(k.parts) > 0 {
		k.run(ctx, call, threads, func(w *worker, i int) {
			if t := k.tasks[i]; t.part >= 0 && t.last {
				w.join(t, k.partsOf(i))
			}
		})
	}
	return ctx.Err()
}

// partsOf returns the parts of which the task is the last.
func (k *Kernel) partsOf(last int) []part {
	t, first := k.tasks[last], last
	for first > 0 && k.tasks[first-1].part >= 0 && !k.tasks[first-1].last {
		first--
	}
	return k.parts[k.tasks[first].part : t.part+1]
}

// run does something with all tasks, on several cores, each with the memory of a worker.
func (k *Kernel) run(ctx context.Context, c *call, threads int, do func(w *worker, i int)) {
	threads = min(threads, len(k.tasks))
	for len(k.workers) < threads {
		k.workers = append(k.workers, new(worker))
	}
	var next atomic.Int64
	vector.Parallel(threads, 1, func(lo, hi int) {
		for _, w := range k.workers[lo:hi] {
			w.call = c
			for i := next.Add(1) - 1; i < int64(len(k.tasks)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				do(w, int(i))
			}
			w.call = nil
		}
	})
}
