package shm

import (
	"errors"
	"fmt"
	"os"
)

// View is another process's region, mapped here.
type View struct {
	data []byte
}

// Map maps size bytes of a region's file, which may be closed afterwards. Writing to a
// view that is not writable ends the process.
func Map(f *os.File, size int64, writable bool) (*View, error) {
	if err := checkSize(f.Name(), size); err != nil {
		return nil, err
	}
	// Touching pages beyond the end of a file raises SIGBUS: refuse them here.
	if info, err := f.Stat(); err != nil || info.Size() < size {
		return nil, errors.Join(fmt.Errorf("shm: %s has fewer than %d bytes", f.Name(), size), err)
	}
	data, err := mapFile(f, size, writable)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes of %s: %w", size, f.Name(), err)
	}
	return &View{data}, nil
}

// MapPath maps the region that another process has under the path; see Region.Path.
func MapPath(path string, size int64, writable bool) (*View, error) {
	mode := os.O_RDONLY
	if writable {
		mode = os.O_RDWR
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	v, err := Map(f, size, writable)
	return v, errors.Join(err, f.Close())
}

// Bytes returns the memory.
func (v *View) Bytes() []byte { return v.data }

// Close unmaps the view. Slices of it must not be used any more.
func (v *View) Close() error {
	if v.data == nil {
		return nil
	}
	data := v.data
	v.data = nil
	return unmap(data)
}
