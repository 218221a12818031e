package gguf

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	version   = 3
	alignment = 32
	// mostName and mostDims are the reader's limits.
	mostName = 63
	mostDims = 4
)

// The types of values, with the numbers that the format gives them.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// pair is a key with its value: uint32, float32, bool, string, or a list of int32, float32 or string.
type pair struct {
	key   string
	value any
}

// tensor is one of the file: its rows are written by write, as they lie in the file.
type tensor struct {
	name  string
	shape []int // slowest dimension first, as safetensors has it
	as    Type
	write func(w io.Writer) error
}

func (t *tensor) bytes() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return t.as.size(n)
}

// file is what a GGUF file is written from.
type file struct {
	keys    []pair
	tensors []*tensor
}

func (f *file) set(key string, value any) { f.keys = append(f.keys, pair{key, value}) }

// bytes returns the size of the file.
func (f *file) bytes() (int, error) {
	head, err := f.header()
	n := aligned(len(head))
	for _, t := range f.tensors {
		n += aligned(t.bytes())
	}
	return n, err
}

// writeTo writes the file.
func (f *file) writeTo(ctx context.Context, w io.Writer) error {
	head, err := f.header()
	if err != nil {
		return err
	}
	out := &counter{w: bufio.NewWriterSize(w, 1<<20)}
	if _, err := out.Write(pad(head)); err != nil {
		return err
	}
	for _, t := range f.tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := out.n
		if err := t.write(out); err != nil {
			return fmt.Errorf("tensor %s: %w", t.name, err)
		}
		if n := out.n - before; n != t.bytes() {
			return fmt.Errorf("tensor %s has %d bytes, want %d", t.name, n, t.bytes())
		}
		if _, err := out.Write(make([]byte, aligned(out.n)-out.n)); err != nil {
			return err
		}
	}
	return out.w.Flush()
}

// header returns all before the data.
func (f *file) header() ([]byte, error) {
	b := append([]byte("GGUF"), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[4:], version)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(f.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(f.keys)))
	var err error
	for _, p := range f.keys {
		b = appendString(b, p.key)
		if b, err = appendValue(b, p.value); err != nil {
			return nil, fmt.Errorf("key %s: %w", p.key, err)
		}
	}
	at := 0
	seen := map[string]bool{}
	for _, t := range f.tensors {
		switch {
		case len(t.name) > mostName:
			return nil, fmt.Errorf("tensor %s: a name has at most %d bytes", t.name, mostName)
		case len(t.shape) < 1 || len(t.shape) > mostDims:
			return nil, fmt.Errorf("tensor %s has %d dimensions, want 1 to %d", t.name, len(t.shape), mostDims)
		case seen[t.name]:
			return nil, fmt.Errorf("two tensors are called %s", t.name)
		}
		seen[t.name] = true
		b = appendString(b, t.name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.shape)))
		for i := range t.shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(t.shape[len(t.shape)-1-i]))
		}
		b = binary.LittleEndian.AppendUint32(b, t.as.id)
		b = binary.LittleEndian.AppendUint64(b, uint64(at))
		at += aligned(t.bytes())
	}
	return b, nil
}

func appendValue(b []byte, value any) ([]byte, error) {
	le := binary.LittleEndian
	array := func(kind, n int) []byte {
		b = le.AppendUint32(b, typeArray)
		b = le.AppendUint32(b, uint32(kind))
		return le.AppendUint64(b, uint64(n))
	}
	switch v := value.(type) {
	case uint32:
		return le.AppendUint32(le.AppendUint32(b, typeUint32), v), nil
	case float32:
		return le.AppendUint32(le.AppendUint32(b, typeFloat32), math.Float32bits(v)), nil
	case bool:
		b = le.AppendUint32(b, typeBool)
		if v {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case string:
		return appendString(le.AppendUint32(b, typeString), v), nil
	case []string:
		b = array(typeString, len(v))
		for _, s := range v {
			b = appendString(b, s)
		}
		return b, nil
	case []int32:
		b = array(typeInt32, len(v))
		for _, x := range v {
			b = le.AppendUint32(b, uint32(x))
		}
		return b, nil
	case []float32:
		b = array(typeFloat32, len(v))
		for _, x := range v {
			b = le.AppendUint32(b, math.Float32bits(x))
		}
		return b, nil
	}
	return nil, fmt.Errorf("a value of type %T is not supported", value)
}

// appendString writes text as valid UTF-8, which the readers ask for.
func appendString(b []byte, text string) []byte {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

func pad(b []byte) []byte { return append(b, make([]byte, aligned(len(b))-len(b))...) }

// counter counts what is written.
type counter struct {
	w *bufio.Writer
	n int
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}
