package shm

import "slices"

// span is a piece of a region: offsets [from, to).
type span struct{ from, to int }

// heap is a first-fit allocator over offsets. Gaps are kept in order and merged with
// their neighbours, so that what is freed can be had again in one piece.
type heap struct {
	gaps  []span
	live  map[int]int // start of an allocation -> its size
	dirty int         // offsets from here on were never handed out: still zero
	used  int
}

// alloc finds room for n > 0 bytes. The first dirty bytes of it may hold old data.
func (h *heap) alloc(n int) (from, dirty int, ok bool) {
	size := roundUp(n)
	if size < n {
		return 0, 0, false // overflow
	}
	for i, g := range h.gaps {
		if g.to-g.from < size {
			continue
		}
		if h.gaps[i].from += size; h.gaps[i].from == g.to {
			h.gaps = slices.Delete(h.gaps, i, i+1)
		}
		h.live[g.from] = size
		dirty = max(0, h.dirty-g.from)
		h.dirty = max(h.dirty, g.from+size)
		h.used += size
		return g.from, dirty, true
	}
	return 0, 0, false
}

// free gives an allocation back. It reports false if there is none at that offset.
func (h *heap) free(from int) bool {
	size, ok := h.live[from]
	if !ok {
		return false
	}
	delete(h.live, from)
	h.used -= size
	g := span{from, from + size}
	i, _ := slices.BinarySearchFunc(h.gaps, g, func(a, b span) int { return a.from - b.from })
	if i < len(h.gaps) && h.gaps[i].from == g.to {
		g.to = h.gaps[i].to
		h.gaps = slices.Delete(h.gaps, i, i+1)
	}
	if i > 0 && h.gaps[i-1].to == g.from {
		h.gaps[i-1].to = g.to
		return true
	}
	h.gaps = slices.Insert(h.gaps, i, g)
	return true
}

func roundUp(n int) int { return (n + Align - 1) &^ (Align - 1) }
