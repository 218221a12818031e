package distributed

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// hub joins ranks that are goroutines of one process, as MPI joins processes.
type hub struct {
	mu    sync.Mutex
	wake  *sync.Cond
	size  int
	split []map[int]*memoryComm // of each split, by colour
	gave  []int                 // ranks that have come to each split
}

func newHub(size int) *hub {
	h := &hub{size: size}
	h.wake = sync.NewCond(&h.mu)
	return h
}

// memoryLink is a rank's link.
type memoryLink struct {
	hub    *hub
	rank   int
	splits int
}

type memoryComm struct {
	hub     *hub
	members []member
	ops     []*memoryOp
}

type member struct{ key, rank int }

// memoryOp is a collective: who comes last moves the bytes.
type memoryOp struct {
	gather      bool
	came        int
	send, recv  [][]byte
	sends, gets []*parts
}

type memoryEnd struct {
	*memoryComm
	link *memoryLink
	next int
}

func (l *memoryLink) leave() error { return nil }
func (l *memoryLink) kill(int)     {}

func (l *memoryLink) split(colour, key int) (comm, error) {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	n := l.splits
	l.splits++
	if len(h.split) == n {
		h.split, h.gave = append(h.split, map[int]*memoryComm{}), append(h.gave, 0)
	}
	c := h.split[n][colour]
	if c == nil {
		c = &memoryComm{hub: h}
		h.split[n][colour] = c
	}
	c.members = append(c.members, member{key, l.rank})
	h.gave[n]++
	h.wake.Broadcast()
	for h.gave[n] < h.size {
		h.wake.Wait()
	}
	slices.SortFunc(c.members, func(a, b member) int { return a.key - b.key })
	return &memoryEnd{memoryComm: c, link: l}, nil
}

func (c *memoryEnd) join(gather bool, send []byte, sends *parts, recv []byte, recvs *parts) (pending, error) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	n := len(c.members)
	if len(c.ops) == c.next {
		c.ops = append(c.ops, &memoryOp{gather: gather, send: make([][]byte, n), recv: make([][]byte, n),
			sends: make([]*parts, n), gets: make([]*parts, n)})
	}
	o := c.ops[c.next]
	c.next++
	if o.gather != gather {
		return nil, errors.New("the ranks do different collectives")
	}
	i := slices.IndexFunc(c.members, func(m member) bool { return m.rank == c.link.rank })
	o.send[i], o.sends[i], o.recv[i], o.gets[i] = send, sends, recv, recvs
	if o.came++; o.came == n {
		for to := range n {
			for from := range n {
				b := o.send[from]
				if !gather {
					b = o.sends[from].of(b, to)
				}
				if into := o.gets[to].of(o.recv[to], from); copy(into, b) != len(b) || len(into) != len(b) {
					return nil, fmt.Errorf("a message of %d bytes comes into %d", len(b), len(into))
				}
			}
		}
	}
	return memoryPending{c.hub, o, n}, nil
}

func (c *memoryEnd) alltoall(send []byte, sends *parts, recv []byte, recvs *parts) (pending, error) {
	return c.join(false, send, sends, recv, recvs)
}

func (c *memoryEnd) allgather(send, recv []byte, recvs *parts) (pending, error) {
	return c.join(true, send, nil, recv, recvs)
}

type memoryPending struct {
	hub *hub
	op  *memoryOp
	n   int
}

func (p memoryPending) finished() (bool, error) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.op.came == p.n, nil
}

// ranks runs f as each rank of a world whose ranks are on these machines. Of the exchanges at the end, which keep all
// processors busy for MPICH's sake, it has two.
func ranks(t *testing.T, hosts []string, f func(w *World) error) {
	t.Helper()
	h := newHub(len(hosts))
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() {
			w := &World{rank: i, size: len(hosts), link: &memoryLink{hub: h, rank: i}, thread: startThread(),
				hosts: hosts, least: bucketElems, goodbyes: 2}
			err := w.do("joining", func() (err error) { w.all, err = w.link.split(0, i); return err })
			if err == nil {
				err = f(w)
			}
			if err = errors.Join(err, w.Close()); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
