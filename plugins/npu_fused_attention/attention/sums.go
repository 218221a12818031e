package attention

import (
	"sync"

	"github.com/seed98097648/tune/core/vector"
)

// rooms is memory for the sums of tasks that share a key head, [2,n,C] each. A task has one while it computes and until
// its sums may be added to those before it, so that there are about as many as threads, and not as tasks.
type rooms struct {
	mu   sync.Mutex
	size int // elements of each
	all  [][]float32
	free [][]float32
}

// begin makes all rooms free, and has them hold so many elements.
func (r *rooms) begin(size int) {
	if r.size < size {
		r.size, r.all = size, nil
		clear(r.free) // they are smaller, and nobody else holds on to them
	}
	r.free = append(r.free[:0], r.all...)
}

// take returns the first n elements of a room.
func (r *rooms) take(n int) []float32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) == 0 {
		room := make([]float32, r.size)
		r.all, r.free = append(r.all, room), append(r.free, room)
	}
	last := len(r.free) - 1
	room := r.free[last]
	r.free = r.free[:last]
	return room[:n]
}

func (r *rooms) give(room []float32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, room)
}

// shared is a key head of a segment that several tasks have parts of.
type shared struct {
	mu    sync.Mutex
	sums  [][]float32 // of each part that is done
	added int         // how many, from the first on, the first's sums have in them
}

// join adds the sums of a part to those of the parts before it, in their order, which rounding depends on, as soon as
// these are done. The last that is added completes the gradients.
func (w *worker) join(t task, sum []float32) {
	h := t.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums[t.part] = sum
	for ; h.added < t.parts && h.sums[h.added] != nil; h.added++ {
		if h.added > 0 {
			vector.Add(h.sums[0], h.sums[0], h.sums[h.added])
			w.rooms.give(h.sums[h.added])
		}
	}
	if h.added == t.parts {
		w.store(t, h.sums[0])
		w.rooms.give(h.sums[0])
	}
}
