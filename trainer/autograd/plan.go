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

// live finds the life of every buffer, lets instructions overwrite buffers that die
// with them, and drops instructions whose outputs nobody reads.
func live(tape []*instr) []*instr {
	tape = dropDead(tape)
	forever := len(tape)
	for i, in := range tape {
		for _, r := range in.out {
			r.slot.first, r.slot.last, r.slot.root = i, i, r.slot
		}
		for _, r := range in.in {
			r.slot.last = max(r.slot.last, i)
		}
	}
	for _, in := range tape {
		for _, r := range in.out {
			if r.slot.keep {
				r.slot.last = forever
			}
		}
	}
	for i, in := range tape {
		if in.inPlace && overwritable(in.in, in.out[0].slot, i) {
			from := in.in[0].slot.root
			in.out[0].slot.root = from
			from.last = max(from.last, in.out[0].slot.last)
		}
	}
	return tape
}

// overwritable reports whether instruction i may write out over its first input.
func overwritable(in []ref, out *slot, i int) bool {
	s := in[0].slot
	if s.leaf || s.last != i || s.root.last != i || s.mem != out.mem || s.spec.bytes() != out.spec.bytes() {
		return false
	}
	for _, r := range in[1:] { // an input that comes twice is still being read
		if r.slot.leaf {
			continue
		}
		if r.slot.root == s.root {
			return false
		}
	}
	return true
}

// dropDead keeps the instructions on which a kept buffer depends.
func dropDead(tape []*instr) []*instr {
	needed := map[*slot]bool{}
	var kept []*instr
	for _, in := range slices.Backward(tape) {
		if !slices.ContainsFunc(in.out, func(r ref) bool { return r.slot.keep || needed[r.slot] }) {
			continue
		}
		for _, r := range in.in {
			needed[r.slot] = true
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
	byMem := map[core.Memory][]*slot{}
	var order []core.Memory
	var all []*slot
	for _, in := range tape {
		for _, r := range in.out {
			all = append(all, r.slot)
			if r.slot.root != r.slot {
				continue
			}
			if byMem[r.slot.mem] == nil {
				order = append(order, r.slot.mem)
			}
			byMem[r.slot.mem] = append(byMem[r.slot.mem], r.slot)
		}
	}
	var blocks []block
	for _, mem := range order {
		size := layout(byMem[mem])
		data, err := mem.Alloc(size)
		if err != nil {
			release(blocks)
			return nil, fmt.Errorf("autograd: %d bytes for activations and gradients: %w", size, err)
		}
		blocks = append(blocks, block{mem, data})
		for _, s := range byMem[mem] {
			n := s.spec.bytes()
			s.tensor = core.Tensor{DType: s.spec.DType, Shape: s.spec.Shape, Data: data[s.offset : s.offset+n : s.offset+n]}
		}
	}
	for _, s := range all {
		if s.root != s {
			s.tensor = core.Tensor{DType: s.spec.DType, Shape: s.spec.Shape, Data: s.root.tensor.Data}
		}
	}
	return blocks, nil
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
