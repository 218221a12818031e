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

	"github.com/seed98097648/tune/core"
)

const (
	lengthBytes    = 8           // the little-endian header length at the start of a file
	maxHeaderBytes = 100_000_000 // the limit of the format's own implementation
)

var errBigEndian = errors.New("safetensors data is little-endian and this machine is not")

// File is one open safetensors file. Its methods may be called from several
// goroutines at once, except Close.
type File struct {
	path    string
	header  header
	data    []byte // what follows the header; tensors are views into it
	mapped  bool
	release func() error
}

// Open maps the file at path and checks all of its header. Errors name the file and,
// where there is one, the tensor. The caller closes the File.
//
// The file must keep its size while it is open: on systems that map files, reading a
// tensor from a file that was cut short kills the process. Write never does that to
// an open file, because it replaces files instead of rewriting them.
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
	raw, mapped, release, err := load(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, mapped: mapped, release: release}
	if f.header, f.data, err = split(raw); err != nil {
		return nil, errors.Join(err, release())
	}
	return f, nil
}

// Names returns the names of all tensors in sorted order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.header.entries)) }

// Tensor returns the tensor of the given name, and false if the file has none.
//
// The tensor is a view of the file: reading it costs no copy, writing to it may crash
// the process, and it must not be used after Close. Only a tensor whose position in
// the file is no multiple of its element size is a fresh copy at every call.
func (f *File) Tensor(name string) (core.Tensor, bool) {
	e, ok := f.header.entries[name]
	if !ok {
		return core.Tensor{}, false
	}
	view := core.Tensor{DType: e.dtype, Shape: slices.Clone(e.shape), Data: f.data[e.begin:e.end:e.end]}
	if view.Valid() == nil {
		return view, true
	}
	// Size and shape were checked on opening: what is left is alignment, which a
	// header of odd length spoils.
	aligned := core.NewTensor(e.dtype, e.shape...)
	copy(aligned.Data, view.Data)
	return aligned, true
}

// Forget takes a tensor of a mapped file out of the process's memory, for a caller that has
// copied it; reading it again reads the file again.
func (f *File) Forget(name string) {
	if e, ok := f.header.entries[name]; ok && f.mapped {
		forget(f.data[e.begin:e.end])
	}
}

// Metadata returns a copy of the file's free-form metadata, usually {"format": "pt"}.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Close releases the file. No tensor of it may be used afterwards. A second Close
// does nothing.
func (f *File) Close() error {
	release := f.release
	if release == nil {
		return nil
	}
	f.release, f.data, f.header = nil, nil, header{}
	if err := release(); err != nil {
		return fmt.Errorf("checkpoint: close %s: %w", f.path, err)
	}
	return nil
}

// split takes the bytes of a whole file apart into its header and its data.
func split(raw []byte) (header, []byte, error) {
	if len(raw) < lengthBytes {
		return header{}, nil, fmt.Errorf("it has %d bytes, too few for a safetensors file; download or save it again", len(raw))
	}
	n, rest := binary.LittleEndian.Uint64(raw), raw[lengthBytes:]
	switch {
	case n > maxHeaderBytes:
		return header{}, nil, fmt.Errorf("header length %d is above the limit of %d bytes; is this a safetensors file?", n, maxHeaderBytes)
	case n > uint64(len(rest)):
		return header{}, nil, fmt.Errorf("header length %d goes beyond the end of the file, which has %d bytes after it; download or save it again", n, len(rest))
	}
	h, err := parseHeader(rest[:n], len(rest)-int(n))
	return h, rest[n:], err
}

// load returns the bytes of a regular file, at an address that is a multiple of 8,
// whether they are mapped, and what gives them back.
func load(path string) ([]byte, bool, func() error, error) {
	info, err := os.Stat(path) // before opening: a named pipe would block the open
	if err != nil {
		return nil, false, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, false, nil, err
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, false, nil, fmt.Errorf("%d bytes do not fit into the address space of a %d-bit program", info.Size(), strconv.IntSize)
	}
	return mapFile(f, int(info.Size()))
}

// readFile is how a file is loaded where it cannot be mapped.
func readFile(f *os.File, size int) ([]byte, bool, func() error, error) {
	// A tensor of 8-byte elements has the alignment that every tensor needs.
	buf := core.NewTensor(core.Int64, size/8+1).Data[:size]
	if _, err := io.ReadFull(f, buf); err != nil {
		return nil, false, nil, err
	}
	return buf, false, func() error { return nil }, nil
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
