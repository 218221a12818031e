package gguf_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/seed98097648/tune/core"
)

// read is a GGUF file as a reader sees it.
type read struct {
	keys    map[string]any
	order   []string
	tensors map[string]stored
}

type stored struct {
	shape []int // slowest first
	kind  uint32
	data  []byte
}

// bytesReader takes the file apart; it panics beyond the end, which fails the test.
type bytesReader struct {
	b  []byte
	at int
}

func (r *bytesReader) take(n int) []byte { r.at += n; return r.b[r.at-n : r.at] }
func (r *bytesReader) u32() uint32       { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *bytesReader) u64() uint64       { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *bytesReader) text() string      { return string(r.take(int(r.u64()))) }

func (r *bytesReader) value(kind uint32) any {
	switch kind {
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] == 1
	case 8:
		return r.text()
	case 9:
		list, of := []any{}, r.u32()
		for range r.u64() {
			list = append(list, r.value(of))
		}
		return list
	}
	panic(fmt.Sprintf("a value of type %d", kind))
}

// blocks gives the numbers and the bytes of a block of each type.
var blocks = map[uint32][2]int{0: {1, 4}, 1: {1, 2}, 30: {1, 2}, 8: {32, 34}, 2: {32, 18}}

// readFile reads a file and checks that each tensor lies where the format wants it, and that nothing else is there.
func readFile(t *testing.T, path string) read {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &bytesReader{b: b}
	if magic, version := string(r.take(4)), r.u32(); magic != "GGUF" || version != 3 {
		t.Fatalf("it begins with %q, version %d", magic, version)
	}
	tensors, keys := r.u64(), r.u64()
	out := read{keys: map[string]any{}, tensors: map[string]stored{}}
	for range keys {
		name := r.text()
		if _, twice := out.keys[name]; twice {
			t.Errorf("key %s comes twice", name)
		}
		out.keys[name] = r.value(r.u32())
	}
	places := map[string]int{}
	for range tensors {
		name := r.text()
		s := stored{shape: make([]int, r.u32())}
		for i := range s.shape {
			s.shape[len(s.shape)-1-i] = int(r.u64())
		}
		s.kind, places[name] = r.u32(), int(r.u64())
		out.order, out.tensors[name] = append(out.order, name), s
	}
	begin, next := (r.at+31)/32*32, 0
	for _, name := range out.order {
		s := out.tensors[name]
		if places[name] != next {
			t.Errorf("tensor %s is at %d, want %d", name, places[name], next)
		}
		n := core.Shape(s.shape).Elems() / blocks[s.kind][0] * blocks[s.kind][1]
		s.data = b[begin+next:][:n]
		out.tensors[name] = s
		next += (n + 31) / 32 * 32
	}
	if len(b) != begin+next {
		t.Errorf("the file has %d bytes, want %d", len(b), begin+next)
	}
	return out
}

// float32s returns the numbers of a tensor.
func (s stored) float32s() []float32 {
	out := make([]float32, 0, core.Shape(s.shape).Elems())
	le := binary.LittleEndian
	for b := s.data; len(b) > 0; b = b[blocks[s.kind][1]:] {
		switch s.kind {
		case 0:
			out = append(out, math.Float32frombits(le.Uint32(b)))
		case 1:
			out = append(out, core.Float16ToFloat32(le.Uint16(b)))
		case 30:
			out = append(out, core.BFloat16ToFloat32(le.Uint16(b)))
		case 8:
			for _, q := range b[2:34] {
				out = append(out, core.Float16ToFloat32(le.Uint16(b))*float32(int8(q)))
			}
		case 2:
			for i := range 32 {
				q := b[2+i%16] >> (i / 16 * 4) & 15
				out = append(out, core.Float16ToFloat32(le.Uint16(b))*float32(int(q)-8))
			}
		}
	}
	return out
}
