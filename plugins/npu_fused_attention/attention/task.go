package attention

import (
	"context"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

const (
	// blockRows is how many queries are a piece of work. It is the inner dimension of the
	// products that give the gradients of keys, and their scores are there at once.
	blockRows = 60
	// leastTasks is how many tasks there should be, for threads to share: a key head of a
	// segment is one, or several when that gives too few. It decides in which order
	// gradients of keys are summed, so it must not depend on the number of threads.
	leastTasks = 16
	// serialWork is the number of multiplications below which starting goroutines costs
	// more than it saves.
	serialWork = 1 << 16
	// gap is what lies between rows of scores, so that they do not lie a power of two
	// apart.
	gap = 16
)

// task is what a segment's queries have to do with one key head, or a part of that.
type task struct {
	segment
	group       int // the key head
	part, parts int
	shared      *shared // nil for a whole head
}

// tasks returns those of one key head one after the other, in the order of its parts.
func tasks(f core.Facts, keys ranges) []task {
	segments := keys.segments(blockRows)
	wanted := (leastTasks-1)/(len(segments)*f.KVHeads) + 1
	var all []task
	for _, s := range segments {
		blocks := f.Heads / f.KVHeads * ((s.hi-s.lo-1)/blockRows + 1)
		for g := range f.KVHeads {
			parts := min(wanted, blocks)
			var several *shared
			if parts > 1 {
				several = &shared{sums: make([][]float32, parts)}
			}
			for p := range parts {
				all = append(all, task{segment: s, group: g, part: p, parts: parts, shared: several})
			}
		}
	}
	return all
}

// queries are rows [from, to) of a query head.
type queries struct{ head, from, to int }

// blocks calls do for each block of queries that is the task's, and tells which comes
// next, if any. The parts take them in turn, because later ones often see more keys.
func (t task) blocks(f core.Facts, do func(b, next queries)) {
	members, i := f.Heads/f.KVHeads, 0
	var b queries
	for m := range members {
		for from := t.lo; from < t.hi; from += blockRows {
			if i%t.parts == t.part {
				next := queries{t.group*members + m, from, min(from+blockRows, t.hi)}
				if b.to > b.from {
					do(b, next)
				}
				b = next
			}
			i++
		}
	}
	do(b, queries{})
}

// run does all tasks, on all cores, each with the memory of a worker.
func (k *Kernel) run(ctx context.Context, c *call, all []task, do func(*worker, task)) error {
	threads := min(vector.Threads(), len(all))
	if c.keys.pairs()*c.facts.Heads*c.facts.HeadDim < serialWork {
		threads = 1
	}
	for len(k.workers) < threads {
		k.workers = append(k.workers, new(worker))
	}
	var next atomic.Int64
	vector.Parallel(threads, 1, func(lo, hi int) {
		for _, w := range k.workers[lo:hi] {
			w.call = c
			for i := next.Add(1) - 1; i < int64(len(all)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				do(w, all[i])
			}
			w.call = nil
		}
	})
	return ctx.Err()
}
