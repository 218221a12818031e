package distributed

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/sched"
	"github.com/seed98097648/tune/internal/os/shm"
)

// arena is memory that the ranks of a node have in common. It has a few sets of buffers, so that a bucket can be
// summed while those before it are on their way to other nodes and back.
type arena struct {
	slots  [][][]float32 // of each set and rank: what the rank adds
	sums   [][]float32   // of each set
	mark   *mark
	turn   uint32 // barriers passed
	ranks  uint32
	urgent *atomic.Bool // nothing is left to be computed meanwhile
	unmap  func() error
}

// mark is what the ranks of a node tell each other by.
type mark struct {
	nonce    uint64
	arrived  atomic.Uint32 // at barriers, over all time
	_        [13]uint32    // another cache line
	complete atomic.Uint32 // buckets that the node has from the others, over all time
}

const (
	sets   = 3 // buckets under way
	header = 4096
)

func arenaBytes(ranks, elems int) int64 { return header + 4*int64(elems)*int64(sets*(ranks+1)) }

// newArena lays an arena out in memory.
func newArena(mem []byte, ranks, elems int, unmap func() error) *arena {
	a := &arena{mark: (*mark)(unsafe.Pointer(&mem[0])), ranks: uint32(ranks), unmap: unmap}
	at := header
	next := func() []float32 {
		x := unsafe.Slice((*float32)(unsafe.Pointer(&mem[at])), elems)
		at += 4 * elems
		return x
	}
	for range sets {
		var slots [][]float32
		for range ranks {
			slots = append(slots, next())
		}
		a.slots, a.sums = append(a.slots, slots), append(a.sums, next())
	}
	return a
}

// invitation is how the other ranks of a node find the memory of the first.
type invitation struct {
	Path  string
	Nonce uint64
}

// share makes the arena of this rank's node, or none for a node of one rank. It fails on all ranks if it does on one.
func (w *World) share(t topology, elems int) (*arena, error) {
	size := arenaBytes(t.locals(), elems)
	var a *arena
	var offer invitation
	var err error
	if t.leader() {
		a, offer, err = offerArena(t.locals(), elems, size)
	}
	text, _ := json.Marshal(offer) // of strings and numbers
	offers, failed := w.Exchange("the memory of each node", text)
	if failed != nil {
		return nil, failed
	}
	if !t.leader() {
		a, err = acceptArena(offers[t.nodes[t.node][0]], t.locals(), elems, size)
	}
	var reason []byte
	if err != nil {
		reason = []byte(err.Error())
	}
	reasons, failed := w.Exchange("the memory of each node", reason)
	if failed != nil {
		return nil, failed
	}
	for rank, r := range reasons {
		if len(r) > 0 {
			return nil, fmt.Errorf("distributed: %s: memory that the ranks of a machine share: %s", w.Name(rank), r)
		}
	}
	return a, nil
}

func offerArena(ranks, elems int, size int64) (*arena, invitation, error) {
	r, err := shm.New("ranks", size, shm.Shared)
	if err != nil {
		return nil, invitation{}, err
	}
	if err := r.Reserve(size); err != nil { // where it is a file
		return nil, invitation{}, errors.Join(err, r.Close())
	}
	a := newArena(r.Bytes(), ranks, elems, r.Close)
	a.mark.nonce = rand.Uint64()
	path := r.Path()
	if path == "" {
		path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.File().Fd())
	}
	return a, invitation{path, a.mark.nonce}, nil
}

func acceptArena(text []byte, ranks, elems int, size int64) (*arena, error) {
	var offer invitation
	if err := json.Unmarshal(text, &offer); err != nil {
		return nil, err
	}
	if offer.Path == "" {
		return nil, errors.New("the first rank has none")
	}
	v, err := shm.MapPath(offer.Path, size, true)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, apart)
	}
	a := newArena(v.Bytes(), ranks, elems, v.Close)
	if a.mark.nonce != offer.Nonce {
		return nil, errors.Join(fmt.Errorf("%s is of another process; %s", offer.Path, apart), v.Close())
	}
	return a, nil
}

// apart is why a rank may not find the memory of another whose machine has the same name.
const apart = "if these are several machines or containers of one name, give each a host name of its own"

// barrier waits for all ranks of the node.
func (a *arena) barrier() {
	if a.ranks == 1 {
		return
	}
	a.turn++
	a.mark.arrived.Add(1)
	a.until(func() bool { return int32(a.mark.arrived.Load()-a.turn*a.ranks) >= 0 })
}

// until waits actively once nothing else is left to do, and otherwise leaves the core to whoever computes.
func (a *arena) until(done func() bool) {
	for i := 0; !done(); i++ {
		if a.urgent.Load() && i < 2000 {
			sched.Yield()
			continue
		}
		time.Sleep(min(latest, soonest<<min(i, 10)))
	}
}
