package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/temp"
)

// Kind says who may write to a region.
type Kind uint8

// The kinds of regions.
const (
	// HostOnly regions are written by the process that made them and by nobody else.
	// Only Linux enforces it; elsewhere it is a promise of the other side.
	HostOnly Kind = iota
	// Shared regions can be mapped for writing by a process that gets the descriptor.
	Shared
)

// Align is the alignment of every allocation, in bytes: a cache line.
const Align = 64

// Region is a piece of memory that other processes can map, with an allocator in it.
// Its methods may be called from several goroutines.
type Region struct {
	id   uint32
	name string
	kind Kind
	file *os.File
	path string // of the temporary file, "" for anonymous memory
	data []byte // nil once closed
	base uintptr
	size int
	pool *Pool // that it is part of, or nil

	mu     sync.Mutex // held for changes of what follows
	heap   heap
	closed atomic.Bool
}

// lastID numbers the regions of a process. Numbers are not used again.
var lastID atomic.Uint32

// New makes a region of size bytes. The name is for people: it shows in the memory maps
// of the process. The memory is anonymous where that can be shared, and a mapped
// temporary file elsewhere; see Anonymous.
func New(name string, size int64, kind Kind) (*Region, error) {
	if err := checkSize(name, size); err != nil {
		return nil, err
	}
	if Anonymous() != nil {
		return NewFile(name, size, kind)
	}
	f, err := anonymousFile(name, size)
	if err != nil {
		return nil, err
	}
	return open(f, "", name, size, kind)
}

// files are the regions that are files.
const files = "tune-*.mem.shm"

// Sweep removes the files of regions whose process was killed.
func Sweep() { temp.Sweep("", files) }

// NewFile makes a region that is a mapped temporary file, removed by Close, or by the next
// NewFile of any process if this one is killed. A file has no seal, so the kind is a
// promise only.
func NewFile(name string, size int64, kind Kind) (*Region, error) {
	if err := checkSize(name, size); err != nil {
		return nil, err
	}
	f, err := temp.File("", files, name)
	if err != nil {
		return nil, fmt.Errorf("shm: region %s: %w", name, err)
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: region %s: cannot reserve %d bytes in %s: %w", name, size, f.Name(), err),
			f.Close(), os.Remove(f.Name()))
	}
	return open(f, f.Name(), name, size, kind)
}

// open maps and seals the file, of which it takes ownership, and lists the region.
func open(f *os.File, path, name string, size int64, kind Kind) (*Region, error) {
	r := &Region{id: lastID.Add(1), name: name, kind: kind, file: f, path: path}
	data, err := mapFile(f, size, true)
	if err == nil {
		r.data, r.heap = data, newHeap(len(data))
		r.base, r.size = address(data), len(data)
		if path == "" {
			err = seal(f, kind)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shm: region %s: cannot map %d bytes: %w",
			name, size, err), r.release())
	}
	list(r)
	return r, nil
}

// ID returns the region's number, unique in this process and never 0.
func (r *Region) ID() uint32 { return r.id }

// Name returns the name given to New.
func (r *Region) Name() string { return r.name }

// Bytes returns the whole region. Touching a page of it costs memory.
func (r *Region) Bytes() []byte { return r.data }

// Size returns the bytes of address space that the region has.
func (r *Region) Size() int64 { return int64(r.size) }

// File returns the file behind the region, to be passed on. The region owns it.
func (r *Region) File() *os.File { return r.file }

// Path returns the path of the file under which another process of the same user can
// open the region while this process lives, or "" for anonymous memory.
func (r *Region) Path() string { return r.path }

// Alloc returns n zeroed bytes that start at a multiple of Align. It takes the first
// gap that is large enough.
func (r *Region) Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("shm: region %s: cannot allocate %d bytes", r.name, n)
	}
	if n == 0 {
		return []byte{}, nil
	}
	b, ok, err := r.take(n)
	if err == nil && !ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		err = fmt.Errorf("shm: %w in region %s: %d bytes wanted, %d of %d in use, the largest gap is %d; free something or make the region larger",
			ErrNoRoom, r.name, n, r.heap.used, r.size, r.heap.largestGap())
	}
	return b, err
}

// take is Alloc for n > 0 bytes; ok is false if no gap is large enough.
func (r *Region) take(n int) (b []byte, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Load() {
		return nil, false, fmt.Errorf("shm: region %s: %w", r.name, os.ErrClosed)
	}
	touched := r.heap.dirty
	from, dirty, ok := r.heap.alloc(n)
	if !ok {
		return nil, false, nil
	}
	if err := r.checkSpace(int64(r.heap.dirty - touched)); err != nil {
		r.heap.free(from)
		r.heap.dirty = touched
		return nil, false, err
	}
	b = r.data[from : from+n : from+n]
	clear(b[:min(n, dirty)])
	return b, true, nil
}

// checkSpace reports that the file system has no room for more bytes of a file, of which
// the first write to them would end the process.
func (r *Region) checkSpace(more int64) error {
	if r.path == "" || more == 0 {
		return nil
	}
	if free, known := freeSpace(r.path); known && free < more {
		dir := filepath.Dir(r.path)
		return fmt.Errorf("shm: %w in region %s for %s: %s, where memory lies in files, has %s free; have the environment variable TMPDIR name a folder with more", ErrNoRoom, r.name, amount.Bytes(more), dir, amount.Bytes(free))
	}
	return nil
}

// Free gives back memory that Alloc returned, or a slice that starts where it started,
// for the next Alloc; pages once touched stay with the region until Close.
// Giving back anything else, or twice, is a fault in the program: Free panics, as
// going on would hand the same memory out twice. Free on a closed region does nothing:
// Close has given all of its memory back, so owners may be closed in any order.
func (r *Region) Free(b []byte) {
	if len(b) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Load() {
		return
	}
	from, ok := r.offset(b)
	if !ok || !r.heap.free(from) {
		panic(fmt.Sprintf("shm: region %s: Free of %d bytes that are not allocated", r.name, len(b)))
	}
}

// InUse returns the bytes allocated now, counted in multiples of Align.
func (r *Region) InUse() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.heap.used)
}

// Peak returns the largest value that InUse had.
func (r *Region) Peak() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.heap.peak)
}

// Close unmaps the region and gives its memory back once no other process maps it.
// Slices of it must not be used any more: reading one ends the process. Close may be
// called twice.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Swap(true) {
		return nil
	}
	unlist(r)
	if err := r.release(); err != nil {
		return fmt.Errorf("shm: close region %s: %w", r.name, err)
	}
	return nil
}

// Closed reports whether Close was called: other processes that map the region should
// unmap it then, as its memory is in use until they do.
func (r *Region) Closed() bool { return r.closed.Load() }

// release undoes open, however far that got.
func (r *Region) release() error {
	var errs []error
	if r.data != nil {
		errs = append(errs, unmap(r.data))
		r.data = nil
	}
	errs = append(errs, r.file.Close())
	if r.path != "" {
		errs = append(errs, os.Remove(r.path))
	}
	return errors.Join(errs...)
}

// offset returns where b starts in the region, if all of b lies in it.
func (r *Region) offset(b []byte) (int, bool) {
	p := address(b)
	if p < r.base || p-r.base > uintptr(r.size) || len(b) > r.size-int(p-r.base) {
		return 0, false
	}
	return int(p - r.base), true
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func checkSize(name string, size int64) error {
	if size <= 0 || int64(int(size)) != size {
		return fmt.Errorf("shm: region %s: size %d is not between 1 and %d", name, size, ^uint(0)>>1)
	}
	return nil
}
