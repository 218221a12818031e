package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/internal/simd"
)

const (
	lengthBytes    = 8           // the little-endian header length at the start of a file
	maxHeaderBytes = 100_000_000 // the limit of the format's own implementation
)

var errBigEndian = errors.New("safetensors data is little-endian and this machine is not")

// File is one open safetensors file. Its methods may be called from several
// goroutines at once, except Close.
type File struct {
	path   string
	header header
	data   io.ReaderAt // what follows the header
	close  func() error
}

// Room is memory that is used again for one tensor after another.
type Room struct{ bytes []byte }

// RoomOf is the memory of a tensor, for one of the same type and shape that is to be there.
func RoomOf(t core.Tensor) *Room { return &Room{t.Data} }

// Open opens the file at path and checks all of its header. Errors name the file and,
// where there is one, the tensor. The caller closes the File.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: cannot read %s: %w", path, err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	if !littleEndian() {
		return nil, errBigEndian
	}
	file, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, close: file.Close}
	if f.header, f.data, err = split(file, size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// Names returns the names of all tensors in sorted order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.header.entries)) }

// Lookup returns the type and shape of a tensor without reading it, and false if the file
// has none of the given name. The type of bytes, which Bytes reads, is InvalidDType.
func (f *File) Lookup(name string) (core.DType, core.Shape, bool) {
	e, ok := f.header.entries[name]
	return e.dtype, slices.Clone(e.shape), ok
}

// Tensor reads the tensor of the given name. A file that was cut short since it was opened
// is an error: it is read, and not mapped, because a mapped page that is no more in the file
// ends the process that touches it.
func (f *File) Tensor(name string) (core.Tensor, error) { return f.TensorIn(new(Room), name) }

// TensorIn is Tensor in memory of the caller's, which is good until the next call with it.
func (f *File) TensorIn(room *Room, name string) (core.Tensor, error) {
	e, ok := f.header.entries[name]
	if !ok {
		return core.Tensor{}, fmt.Errorf("checkpoint: %s has no tensor %s", f.path, name)
	}
	if e.dtype == core.InvalidDType {
		known := strings.Join(slices.Sorted(maps.Keys(dtypes())), ", ")
		return core.Tensor{}, fmt.Errorf("checkpoint: tensor %s of %s is %s, and not of a model that was quantised in "+
			"a way that is known here; convert it to one of %s", name, f.path, e.dtypeName, known)
	}
	size := e.end - e.begin
	if cap(room.bytes) < size {
		// Elements of 8 bytes have the alignment that every tensor needs.
		room.bytes = core.NewTensor(core.Int64, (size+7)/8).Data
	}
	data := room.bytes[:size:size]
	if err := readAt(f.data, data, e.begin); err != nil {
		return core.Tensor{}, fmt.Errorf("checkpoint: cannot read tensor %s of %s: %w", name, f.path, err)
	}
	return core.Tensor{DType: e.dtype, Shape: slices.Clone(e.shape), Data: data}, nil
}

// Bytes reads a tensor of unsigned bytes (U8), which stand for something else. Of a tensor of another type, or where
// there is none, it returns false.
func (f *File) Bytes(name string) ([]byte, bool, error) {
	e, ok := f.header.entries[name]
	if !ok || e.dtypeName != byteName {
		return nil, false, nil
	}
	b := make([]byte, e.end-e.begin)
	if err := readAt(f.data, b, e.begin); err != nil {
		return nil, true, fmt.Errorf("checkpoint: cannot read tensor %s of %s: %w", name, f.path, err)
	}
	return b, true, nil
}

// readAt fills b from a place in a file, in parts of a few pages that all threads share: what the
// system has in memory is copied, and one thread takes longer for it than the model takes to check
// and convert it.
func readAt(file io.ReaderAt, b []byte, at int) error {
	var failed atomic.Pointer[error]
	const part = 1 << 20
	simd.Parallel((len(b)+part-1)/part, 1, func(lo, hi int) {
		lo, hi = lo*part, min(hi*part, len(b))
		if n, err := file.ReadAt(b[lo:hi], int64(at+lo)); n < hi-lo {
			failed.Store(&err)
		}
	})
	err := failed.Load()
	switch {
	case err == nil:
		return nil
	case *err == io.EOF:
		return errors.New("the file has become shorter since it was opened; save or download it again, and let no one " +
			"change it in the meantime")
	}
	return *err
}

// Metadata returns a copy of the file's free-form metadata, usually {"format": "pt"}.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Close closes the file, which has no tensors from then on. A second Close does nothing.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	err := f.close()
	f.close, f.header = nil, header{}
	if err != nil {
		return fmt.Errorf("checkpoint: close %s: %w", f.path, err)
	}
	return nil
}

// split takes a whole file of so many bytes apart into its header and its data.
func split(file io.ReaderAt, size int) (header, io.ReaderAt, error) {
	if size < lengthBytes {
		return header{}, nil, fmt.Errorf("it has %d bytes, too few for a safetensors file; download or save it again", size)
	}
	var length [lengthBytes]byte
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return header{}, nil, err
	}
	n, rest := binary.LittleEndian.Uint64(length[:]), size-lengthBytes
	switch {
	case n > maxHeaderBytes:
		var start [32]byte
		read, _ := file.ReadAt(start[:], 0) // it may have less
		if what := plainjson.Stranger(start[:read]); what != "" {
			return header{}, nil, errors.New(what)
		}
		return header{}, nil, fmt.Errorf("header length %d is above the limit of %d bytes; is this a safetensors file?", n,
			maxHeaderBytes)
	case n > uint64(rest):
		return header{}, nil, fmt.Errorf("header length %d goes beyond the end of the file, which has %d bytes after it; "+
			"download or save it again", n, rest)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(file, lengthBytes, int64(n)), raw); err != nil {
		return header{}, nil, err
	}
	data := rest - int(n)
	h, err := parseHeader(raw, data)
	return h, io.NewSectionReader(file, int64(size-data), int64(data)), err
}

// openRegular opens a regular file and returns its size.
func openRegular(path string) (*os.File, int, error) {
	info, err := os.Stat(path) // before opening: a named pipe would block the open
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil && int64(int(info.Size())) != info.Size() {
		err = fmt.Errorf("%d bytes do not fit into the address space of a %d-bit program", info.Size(), strconv.IntSize)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, int(info.Size()), nil
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
