package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/os/temp"
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

// Region is a piece of memory that other processes can map.
type Region struct {
	id     uint32
	name   string
	file   *os.File
	path   string // of the temporary file, "" for anonymous memory
	data   []byte // nil once closed
	base   uintptr
	size   int
	pool   *Pool // that it is part of, or nil
	closed atomic.Bool

	reserved int64 // bytes from the start that Reserve has made sure of
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
// promise only. It has holes, where the system lets it: see Reserve.
func NewFile(name string, size int64, kind Kind) (*Region, error) {
	if err := checkSize(name, size); err != nil {
		return nil, err
	}
	f, err := temp.File("", files, name)
	if err != nil {
		remedy := "have the environment variable " + temp.Variable() + " name a folder that can be written to"
		if more := plainfile.MoreFiles(err); more != "" {
			remedy = more + ", or use fewer plugins"
		}
		return nil, fmt.Errorf("shm: region %s: %w: %w; %s", name, errNoFile, err, remedy)
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: %w for region %s: a file of %d bytes in %s: %w; %s",
			ErrNoRoom, name, size, filepath.Dir(f.Name()), err, remedy()), f.Close(), os.Remove(f.Name()))
	}
	return open(f, f.Name(), name, size, kind)
}

// open maps and seals the file, of which it takes ownership, and lists the region.
func open(f *os.File, path, name string, size int64, kind Kind) (*Region, error) {
	r := &Region{id: lastID.Add(1), name: name, file: f, path: path}
	data, err := mapFile(f, size, true)
	if err == nil {
		r.data, r.base, r.size = data, address(data), len(data)
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

// Bytes returns the whole region. Touching a page of it costs memory.
func (r *Region) Bytes() []byte { return r.data }

// Size returns the bytes of address space that the region has.
func (r *Region) Size() int64 { return int64(r.size) }

// File returns the file behind the region, to be passed on. The region owns it.
func (r *Region) File() *os.File { return r.file }

// Path returns the path of the file under which another process of the same user can
// open the region while this process lives, or "" for anonymous memory.
func (r *Region) Path() string { return r.path }

// Close unmaps the region and gives its memory back once no other process maps it.
// Slices of it must not be used any more: reading one ends the process. Close may be
// called twice.
func (r *Region) Close() error {
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
		errs = append(errs, temp.Remove(r.path))
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
