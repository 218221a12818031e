package distributed

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/simd"
)

// Type is what sums travel as between machines.
type Type string

// The types. Sums within a machine are float32 with either.
const (
	Float32  Type = "float32"
	BFloat16 Type = "bfloat16" // half the bytes; each machine's sum, and the sum of all, is rounded
)

// Types returns the names of all types.
func Types() []string { return []string{string(Float32), string(BFloat16)} }

// Reducer sums tensors over all ranks, while this rank still computes others: its own goroutine sums what is complete
// within the node, and has the thread of MPI exchange it with the other nodes.
//
// It is for one goroutine, and all ranks call the same methods in the same order, but for Ready.
type Reducer struct {
	world   *World
	top     topology
	buckets []bucket
	of      [][]int // the buckets of each tensor
	arena   *arena
	remote  *remote // nil for one node, or who does not speak for its node
	wire    Type
	values  [][]float32

	pass   *pass
	urgent atomic.Bool
	base   uint32 // buckets of passes before this one, by which arena.mark.complete counts
}

// kind is what a pass does.
type kind int

const (
	sum     kind = iota // every rank gets the sums
	scatter             // every rank gets the sums of its own elements
	gather              // every rank gets every element from the rank whose own it is
)

// pass is one walk over all buckets.
type pass struct {
	kind    kind
	missing []int // tensors of each bucket that are not ready
	next    int   // the first bucket that was not given to the goroutine
	ready   chan int
	done    chan struct{}
	course  *course // with the other nodes
}

// NewReducer returns one for tensors of so many elements, which become complete in an order that all ranks have in
// common. Close gives its memory back.
func (w *World) NewReducer(sizes, order []int, wire Type) (*Reducer, error) {
	r := &Reducer{world: w, wire: wire, of: make([][]int, len(sizes)), top: arrange(w.hosts, w.rank)}
	total := 0
	for _, n := range sizes {
		total += n
	}
	most := sized(w.least, len(r.top.nodes), total)
	r.buckets = fill(sizes, order, most)
	err := w.Same("the tensors that are trained, or the order in which they are computed, differ", r.buckets)
	if err != nil {
		return nil, err
	}
	for i, b := range r.buckets {
		for _, s := range b.segments {
			if of := &r.of[s.tensor]; len(*of) == 0 || (*of)[len(*of)-1] != i {
				*of = append(*of, i)
			}
		}
	}
	if r.arena, err = w.share(r.top, most); err != nil {
		return nil, err
	}
	r.arena.urgent = &r.urgent
	if len(r.top.nodes) > 1 {
		r.remote, err = newRemote(r, most)
	}
	return r, err
}

// Same is an error, which says otherwise, unless v, formatted, is the same on all ranks.
func (w *World) Same(otherwise string, v any) error {
	if w == nil {
		return nil
	}
	h := sha256.Sum256(fmt.Append(nil, v))
	all, err := w.Exchange("a comparison of the ranks", h[:])
	if err != nil {
		return err
	}
	for i, other := range all {
		if !bytes.Equal(other, all[0]) {
			return fmt.Errorf("distributed: %s and %s: %s; start all ranks with the same program, plugins and files",
				w.Name(0), w.Name(i), otherwise)
		}
	}
	return nil
}

// Bind says where the tensors are. It is called between passes.
func (r *Reducer) Bind(values [][]float32) { r.values = values }

// Own calls use for each piece of a tensor that is this rank's own: together the ranks own each element once.
func (r *Reducer) Own(use func(tensor, from, to int)) {
	for _, b := range r.buckets {
		lo, hi := r.top.own(b.elems)
		b.within(lo, hi, func(s segment, _ int) { use(s.tensor, s.from, s.to) })
	}
}

// Sum starts a pass that gives every rank the sums; with scattered, only those of its own elements. Ready says which
// tensors are there, and Wait ends it.
func (r *Reducer) Sum(scattered bool) {
	if scattered {
		r.begin(scatter)
	} else {
		r.begin(sum)
	}
}

// Gather gives all ranks each element from the rank whose own it is.
func (r *Reducer) Gather() error {
	r.begin(gather)
	return r.Wait()
}

func (r *Reducer) begin(k kind) {
	n := len(r.buckets)
	p := &pass{kind: k, missing: make([]int, n), ready: make(chan int, n), done: make(chan struct{})}
	for _, of := range r.of {
		for _, b := range of {
			p.missing[b]++
		}
	}
	r.pass = p
	r.urgent.Store(false)
	if r.remote != nil {
		p.course = r.remote.begin(k)
	}
	go r.run(p) // until Wait
}

// Ready says that a tensor is complete here.
func (r *Reducer) Ready(tensor int) {
	for _, b := range r.of[tensor] {
		r.pass.missing[b]--
	}
	r.pass.push()
}

// push gives the goroutine all buckets that are ready, in their order.
func (p *pass) push() {
	for p.next < len(p.missing) && p.missing[p.next] <= 0 {
		p.ready <- p.next
		p.next++
	}
}

// Wait ends a pass: what was not said to be ready is taken as it is.
func (r *Reducer) Wait() error {
	if r.pass == nil {
		return errors.New("distributed: no pass was begun")
	}
	start := clock.Now()
	defer func() { r.world.spent += clock.Since(start) }()
	defer r.world.watch("a sum over the ranks")()
	r.urgent.Store(true)
	clear(r.pass.missing)
	r.pass.push()
	close(r.pass.ready)
	<-r.pass.done
	r.base += uint32(len(r.buckets))
	r.pass = nil
	return nil
}

// run is the goroutine of a pass.
func (r *Reducer) run(p *pass) {
	defer close(p.done)
	last := 0
	for i := range p.ready {
		if i >= sets {
			r.finish(p, i-sets)
		}
		r.local(p, i)
		last = i + 1
	}
	for i := max(0, last-sets); i < last; i++ {
		r.finish(p, i)
	}
}

// local brings a bucket to where the node has its sum, or its own elements, and sends it on.
func (r *Reducer) local(p *pass, i int) {
	a, b := r.arena, r.buckets[i]
	all := a.sums[i%sets][:b.elems]
	switch {
	case p.kind == gather:
		a.barrier() // nobody reads what was there any more
		lo, hi := r.top.own(b.elems)
		b.within(lo, hi, func(s segment, at int) { copy(all[at:], r.values[s.tensor][s.from:s.to]) })
	case r.top.locals() == 1:
		b.within(0, b.elems, func(s segment, at int) { copy(all[at:], r.values[s.tensor][s.from:s.to]) })
	default:
		slots := a.slots[i%sets]
		b.within(0, b.elems, func(s segment, at int) { copy(slots[r.top.local][at:], r.values[s.tensor][s.from:s.to]) })
		a.barrier()
		lo, hi := cut(b.elems, r.top.local, r.top.locals()), cut(b.elems, r.top.local+1, r.top.locals())
		addUp(all[lo:hi], slots, lo)
	}
	a.barrier()
	if r.remote != nil {
		r.remote.send(p.course, i)
	}
}

// addUp sums what the slots have from an element on, in their order.
func addUp(into []float32, slots [][]float32, from int) {
	const block = 4096 // stays in the fastest cache
	for at := 0; at < len(into); at += block {
		d := into[at:min(at+block, len(into))]
		part := func(k int) []float32 { return slots[k][from+at:][:len(d)] }
		simd.Add(d, part(0), part(1))
		for k := 2; k < len(slots); k++ {
			simd.Add(d, d, part(k))
		}
	}
}

// finish takes a bucket back, once the node has all of it.
func (r *Reducer) finish(p *pass, i int) {
	a, b := r.arena, r.buckets[i]
	if len(r.top.nodes) > 1 {
		want := r.base + uint32(i) + 1
		a.until(func() bool { return int32(a.mark.complete.Load()-want) >= 0 })
	}
	lo, hi := 0, b.elems
	if p.kind == scatter {
		lo, hi = r.top.own(b.elems)
	}
	all := a.sums[i%sets]
	b.within(lo, hi, func(s segment, at int) { copy(r.values[s.tensor][s.from:s.to], all[at:]) })
}

// Collect gives the first rank in whole what each rank has its own elements of: in the order of Own, in pieces that
// may be smaller. The other ranks have no whole.
func (r *Reducer) Collect(pieces, whole [][]float32) error {
	next := 0
	for _, b := range r.buckets {
		var mine []byte
		lo, hi := r.top.own(b.elems)
		b.within(lo, hi, func(s segment, _ int) {
			for n := s.to - s.from; n > 0; next++ {
				mine = append(mine, asBytes(pieces[next])...)
				n -= len(pieces[next])
			}
		})
		all, err := r.world.Exchange("what the ranks have of the optimizer", mine)
		if err != nil {
			return err
		}
		for rank, m := range all {
			if whole == nil {
				break
			}
			of := arrange(r.world.hosts, rank)
			from, to := of.own(b.elems)
			b.within(from, to, func(s segment, at int) {
				copy(asBytes(whole[s.tensor][s.from:s.to]), m[4*(at-from):])
			})
		}
	}
	return nil
}

// Close gives the memory back, after the last pass.
func (r *Reducer) Close() error { return r.arena.unmap() }
