package shm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/seed98097648/tune/internal/amount"
)

// ErrNoRoom is in the error of an allocation that finds no memory.
var ErrNoRoom = errors.New("no room")

// errNoFile is in the error of a region that needs a file where none can be made, however small.
var errNoFile = errors.New("no file can be made for it")

// Pool is memory for tensors in as many regions as it takes. It begins with little address
// space, which some machines limit, and doubles it when it is full. A region
// that is empty again is closed, unless it is the first. Its methods may be called from
// several goroutines.
type Pool struct {
	name  string
	limit int64 // of the bytes in use; 0 for none
	kind  Kind
	make  func(name string, size int64, kind Kind) (*Region, error)

	shapes bool // what is handed out is never written to

	mu     sync.Mutex // held for changes of what follows
	arenas []*arena
	closed bool
}

// arena is a region with an allocator in it.
type arena struct {
	*Region
	heap heap
}

// NewPool returns a pool of at most limit bytes, 0 for as many as can be had, in regions
// that are made by New or NewFile. It makes none yet.
func NewPool(name string, limit int64, kind Kind, region func(string, int64, Kind) (*Region, error)) *Pool {
	return &Pool{name: name, limit: limit, kind: kind, make: region}
}

// NewShapes returns a pool of addresses, for memory that is planned and never touched: what it hands out has no room
// reserved, so that what does not fit on this machine can be planned, too.
func NewShapes(name string, region func(string, int64, Kind) (*Region, error)) *Pool {
	p := NewPool(name, 0, HostOnly, region)
	p.shapes = true
	return p
}

// Apart returns a pool of the same make for what is not needed for long: its Close gives every page back that no
// other process maps, also where the pool itself would keep them for what comes next. It may use as much as the pool
// may now.
func (p *Pool) Apart() *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	apart := &Pool{name: p.name, limit: p.limit, kind: p.kind, make: p.make, shapes: p.shapes, closed: p.closed}
	if p.limit > 0 {
		apart.limit = max(p.limit-p.used(), 1)
	}
	return apart
}

// Limit returns the most bytes that may be in use; 0 for any number.
func (p *Pool) Limit() int64 { return p.limit }

// Has reports whether the region is one of the pool's.
func (p *Pool) Has(r *Region) bool { return r.pool == p }

// Alloc returns n zeroed bytes that start at a multiple of Align. The error wraps ErrNoRoom
// if there is none.
func (p *Pool) Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("shm: memory %s: cannot allocate %d bytes", p.name, n)
	}
	if n == 0 {
		return []byte{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("shm: memory %s is closed, and so is its plugin or registry if it is of one: %w", p.name,
			os.ErrClosed)
	}
	if used := p.used(); p.limit > 0 && int64(n) > p.limit-used {
		return nil, fmt.Errorf("shm: %w in the memory %s for %s beside %s in use: %s is all there may be",
			ErrNoRoom, p.name, amount.Bytes(int64(n)), amount.Bytes(used), amount.Bytes(p.limit))
	}
	var full error // the first region that has the gap, and no room behind it; others may have both
	for _, a := range p.arenas {
		b, err := a.piece(n)
		if b != nil {
			return b, nil
		}
		full = cmp.Or(full, err)
	}
	if full != nil {
		return nil, full
	}
	a, err := p.grow(int64(roundUp(n)))
	if err != nil {
		return nil, err
	}
	b, err := a.piece(n)
	if err == nil && b == nil {
		err = fmt.Errorf("shm: %w in the memory %s for %d bytes", ErrNoRoom, p.name, n)
	}
	return b, err
}

// piece returns n > 0 bytes of the first gap that is large enough, nil if there is none.
func (a *arena) piece(n int) ([]byte, error) {
	touched := a.heap.dirty
	from, dirty, ok := a.heap.alloc(n)
	if !ok {
		return nil, nil
	}
	if a.pool.shapes {
		return a.data[from : from+n : from+n], nil
	}
	if err := a.Reserve(int64(a.heap.dirty)); err != nil {
		a.heap.free(from)
		a.heap.dirty = touched
		return nil, err
	}
	b := a.data[from : from+n : from+n]
	clear(b[:min(n, dirty)])
	return b, nil
}

// grow adds a region with room for that many bytes, and for as many as there are already
// where address space is plentiful.
func (p *Pool) grow(need int64) (*arena, error) {
	const least, page = 32 << 20, 1 << 16
	want := int64(least)
	if addressLimit() == 0 && strconv.IntSize == 64 {
		want *= 8
		for _, a := range p.arenas {
			want += a.Size()
		}
	}
	if p.limit > 0 {
		want = min(want, p.limit)
	}
	need = max(need, 1)
	for want = max(want, need); ; want = max(want/2, need) {
		r, err := p.make(p.name, (want+page-1)&^(page-1), p.kind)
		if err == nil {
			r.pool = p
			a := &arena{r, heap{gaps: []span{{0, r.size}}, live: map[int]int{}}}
			p.arenas = append(p.arenas, a)
			return a, nil
		}
		if errors.Is(err, errNoFile) {
			return nil, err
		}
		if want == need {
			return nil, fmt.Errorf("shm: %w in the memory %s for %s beside %s in use: %w%s",
				ErrNoRoom, p.name, amount.Bytes(need), amount.Bytes(p.used()), err, addressNote())
		}
	}
}

// addressNote reminds of a limit that may be why memory cannot be mapped.
func addressNote() string {
	switch limit := addressLimit(); {
	case limit > 0:
		return fmt.Sprintf("; the address space of this process is limited to %s: ulimit -v can raise that",
			amount.Bytes(limit))
	case strconv.IntSize < 64:
		return "; a 64-bit program has more address space"
	}
	return ""
}

// Free gives back memory that Alloc returned, or a slice that starts where it started, for
// the next Alloc; pages once touched stay with the region until it is closed. Giving back
// anything else, or twice, is a fault in the program: Free panics, as going on would hand the
// same memory out twice. On a closed pool Free does nothing: Close has given all of its memory
// back, so owners may be closed in any order.
func (p *Pool) Free(b []byte) {
	if len(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	i := slices.IndexFunc(p.arenas, func(a *arena) bool {
		from, ok := a.offset(b)
		return ok && a.heap.free(from)
	})
	if i < 0 {
		panic(fmt.Sprintf("shm: memory %s: Free of %d bytes that are not allocated", p.name, len(b)))
	}
	if a := p.arenas[i]; i > 0 && a.heap.used == 0 {
		p.arenas = slices.Delete(p.arenas, i, i+1)
		_ = a.Close() // what it cannot give back stays with the process
	}
}

// Trim closes the regions that are empty, the first one too, whose pages once touched would otherwise stay. Nothing is
// lost by that but the time to make one again.
func (p *Pool) Trim() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	p.arenas = slices.DeleteFunc(p.arenas, func(a *arena) bool {
		if a.heap.used > 0 {
			return false
		}
		errs = append(errs, a.Close())
		return true
	})
	return errors.Join(errs...)
}

// InUse returns the bytes allocated now, counted in multiples of Align.
func (p *Pool) InUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used()
}

func (p *Pool) used() (n int64) {
	for _, a := range p.arenas {
		n += int64(a.heap.used)
	}
	return n
}

// Close closes all regions; see Region.Close.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, a := range p.arenas {
		errs = append(errs, a.Close())
	}
	p.arenas = nil
	return errors.Join(errs...)
}
