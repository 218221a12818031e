package autograd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const align = 64 // bytes; a cache line and a vector register

// block is the memory that a program holds in one Memory.
type block struct {
	mem  core.Memory
	data []byte
}

// live finds the life of every buffer and lets instructions overwrite buffers that die
// with them.
func live(tape []*instr) {
	forever := len(tape)
	for i, in := range tape {
		for _, s := range in.writes {
			s.first, s.last, s.root = i, i, s
			if s.keep {
				s.last = forever
			}
		}
		for s := range in.reads {
			s.last = max(s.last, i)
		}
	}
	for i, in := range tape {
		for k, s := range in.writes {
			if in.addsTo(k) {
				takeOver(in.over[k], s)
			}
		}
		if !in.inPlace {
			continue
		}
		if in.sum { // the terms may come in any order
			if k := slices.IndexFunc(in.in, func(r ref) bool { return overwritable(in.in, r.slot, in.out[0].slot, i) }); k > 0 {
				in.in[0], in.in[k] = in.in[k], in.in[0]
			}
		}
		if s := in.in[in.place].slot; overwritable(in.in, s, in.out[0].slot, i) {
			takeOver(s, in.out[0].slot)
		}
	}
	for _, in := range tape {
		for _, s := range in.writes {
			if s.lasting {
				s.root.first = 0
			}
		}
	}
}

// takeOver gives s the place of a buffer that is not read as it was any more.
func takeOver(from, s *slot) {
	s.root = from.root
	s.root.last = max(s.root.last, s.last)
}

// overwritable reports whether instruction i, which reads in, may write out over s, one
// of what it reads.
func overwritable(in []ref, s, out *slot, i int) bool {
	if s.leaf || s.root.last != i || s.mem != out.mem || s.spec.bytes() != out.spec.bytes() {
		return false
	}
	times := 0 // an input that comes twice is still being read
	for _, r := range in {
		if r.slot != nil && r.slot.root == s.root {
			times++
		}
	}
	return times == 1
}

// dropDead keeps the instructions on which a kept buffer depends.
func dropDead(tape []*instr) []*instr {
	needed := map[*slot]bool{}
	var kept []*instr
	for _, in := range slices.Backward(tape) {
		used := false
		for _, s := range in.writes {
			used = used || s.keep || needed[s]
		}
		if !used {
			continue
		}
		for s := range in.reads {
			needed[s] = true
		}
		kept = append(kept, in)
	}
	slices.Reverse(kept)
	return kept
}

// place gives every buffer an offset in the block of its memory such that buffers
// whose lives overlap do not, allocates the blocks and makes the tensors. The largest
// buffers are placed first, each at the lowest offset that is free during its life.
func place(tape []*instr) ([]block, error) {
	var blocks []block
	for _, m := range roots(tape) {
		size := layout(m.slots)
		data, err := m.mem.Alloc(size)
		if err != nil {
			release(blocks)
			return nil, fmt.Errorf("autograd: %d bytes for activations and gradients: %w", size, err)
		}
		blocks = append(blocks, block{m.mem, data})
		for _, s := range m.slots {
			n := s.spec.bytes()
			s.tensor = core.Tensor{DType: s.spec.DType, Shape: s.spec.Shape, Data: data[s.offset : s.offset+n : s.offset+n]}
		}
	}
	for _, in := range tape {
		for _, s := range in.writes {
			if s.root != s {
				s.tensor = core.Tensor{DType: s.spec.DType, Shape: s.spec.Shape, Data: s.root.tensor.Data}
			}
		}
	}
	return blocks, nil
}

// inMemory are the buffers that lie in one memory.
type inMemory struct {
	mem   core.Memory
	slots []*slot
}

// roots returns the buffers that need a place of their own, by their memory, in the order
// in which the tape comes to them.
func roots(tape []*instr) []inMemory {
	var all []inMemory
	for _, in := range tape {
		for _, s := range in.writes {
			if s.root != s {
				continue
			}
			i := slices.IndexFunc(all, func(m inMemory) bool { return m.mem == s.mem })
			if i < 0 {
				i = len(all)
				all = append(all, inMemory{mem: s.mem})
			}
			all[i].slots = append(all[i].slots, s)
		}
	}
	return all
}

// layout sets the offsets and returns the bytes needed.
func layout(slots []*slot) int {
	slices.SortStableFunc(slots, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(b.spec.bytes(), a.spec.bytes()), cmp.Compare(a.first, b.first))
	})
	var placed []*slot // sorted by offset
	total := 0
	for _, s := range slots {
		s.offset = 0
		for _, p := range placed {
			if p.first > s.last || s.first > p.last {
				continue
			}
			if s.offset+s.spec.bytes() <= p.offset {
				break
			}
			s.offset = max(s.offset, roundUp(p.offset+p.spec.bytes()))
		}
		i, _ := slices.BinarySearchFunc(placed, s.offset, func(p *slot, off int) int { return cmp.Compare(p.offset, off) })
		placed = slices.Insert(placed, i, s)
		total = max(total, s.offset+s.spec.bytes())
	}
	return max(total, align)
}

func roundUp(n int) int { return (n + align - 1) &^ (align - 1) }

func release(blocks []block) {
	for _, b := range blocks {
		b.mem.Free(b.data)
	}
}
