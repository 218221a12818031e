package kerneltest

import (
	"hash/crc32"
	"unsafe"

	"github.com/seed98097648/tune/core"
)

const (
	guardBytes = 128
	guardByte  = 0xff // NaN in every type of floating point, which is seen even if it is multiplied by 0
	alignment  = 64
)

// guarded is a tensor between guard bytes.
type guarded struct {
	core.Tensor
	name   string
	whole  []byte // guard, data, guard
	start  int    // of the data in whole
	before uint32 // what sum returned once an input was filled
}

// newGuarded places a tensor in memory, whatever that holds; shift moves its start off the 64-byte boundary
// by that many elements.
func newGuarded(m core.Memory, name string, d core.DType, shape core.Shape, shift int) (guarded, error) {
	n := d.Bytes(shape.Elems())
	whole, err := m.Alloc(n + 2*guardBytes + alignment)
	if err != nil {
		return guarded{}, err
	}
	misfit := int(uintptr(unsafe.Pointer(unsafe.SliceData(whole))) % alignment)
	start := guardBytes/2 + (alignment-misfit)%alignment + shift*d.Size()
	data := whole[start : start+n : start+n]
	fill(whole[:start], guardByte)
	fill(whole[start+n:], guardByte)
	return guarded{Tensor: core.Tensor{DType: d, Shape: shape, Data: data}, name: name, whole: whole, start: start}, nil
}

// sum changes when data or guards do.
func (g guarded) sum() uint32 { return crc32.ChecksumIEEE(g.whole) }

// seal remembers the sum.
func (g *guarded) seal() { g.before = g.sum() }

// intact reports whether the guards are as they were, or else where, relative to the
// data, they are not.
func (g guarded) intact() (at int, ok bool) {
	for _, from := range []int{0, g.start + len(g.Data)} {
		guard := g.whole[from:]
		if from == 0 {
			guard = guard[:g.start]
		}
		for i, b := range guard {
			if b != guardByte {
				return from + i - g.start, false
			}
		}
	}
	return 0, true
}

func fill(b []byte, v byte) {
	if len(b) > 0 {
		b[0] = v
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// heap is core.Memory on the Go heap.
type heap struct{}

func (heap) Alloc(n int) ([]byte, error) {
	return core.NewTensor(core.Int64, (n+7)/8).Data[:n], nil
}

func (heap) Free([]byte) {}

// memory is the kernel's own memory, if it has one, so that a plugin is tested without
// copies between it and its host; else the heap.
type memory struct {
	core.Memory
	blocks [][]byte
	inputs *memory // freed with it, or nil
}

func newMemory(k core.Kernel) *memory { return &memory{Memory: core.OutputsOf(k, heap{})} }

func (m *memory) Alloc(n int) ([]byte, error) {
	b, err := m.Memory.Alloc(n)
	if err == nil {
		m.blocks = append(m.blocks, b)
	}
	return b, err
}

func (m *memory) free() {
	for _, b := range m.blocks {
		m.Memory.Free(b)
	}
	if m.inputs != nil {
		m.inputs.free()
	}
}

// orIn returns where inputs lie: in memory of the caller's choice, or with the outputs in m if
// that is nil.
func (m *memory) orIn(inputs core.Memory) *memory {
	if inputs == nil {
		return m
	}
	m.inputs = &memory{Memory: inputs}
	return m.inputs
}
