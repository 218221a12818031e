package shm

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// live is the table of this process's regions in order of address. It is one per
// process because the address space is: whoever holds a slice can ask where it lies
// without knowing who allocated it. It is copied on every change, so that reading
// takes no lock.
var live struct {
	mu    sync.Mutex // held by writers
	table atomic.Pointer[[]*Region]
}

// Locate finds the live region that holds all of b, and where b starts in it. An
// empty slice lies nowhere.
func Locate(b []byte) (r *Region, offset int64, ok bool) {
	t := live.table.Load()
	if t == nil || len(b) == 0 {
		return nil, 0, false
	}
	p := address(b)
	i, found := slices.BinarySearchFunc(*t, p, compareBase)
	if !found {
		i--
	}
	if i < 0 {
		return nil, 0, false
	}
	r = (*t)[i]
	n, ok := r.offset(b)
	if !ok {
		return nil, 0, false
	}
	return r, int64(n), true
}

// Overlap reports whether a and b share a byte, wherever they lie.
func Overlap(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 &&
		address(a) < address(b)+uintptr(len(b)) && address(b) < address(a)+uintptr(len(a))
}

func list(r *Region) {
	edit(func(t []*Region) []*Region {
		i, _ := slices.BinarySearchFunc(t, r.base, compareBase)
		return slices.Insert(t, i, r)
	})
}

func unlist(r *Region) {
	edit(func(t []*Region) []*Region {
		return slices.DeleteFunc(t, func(x *Region) bool { return x == r })
	})
}

func edit(change func([]*Region) []*Region) {
	live.mu.Lock()
	defer live.mu.Unlock()
	var t []*Region
	if old := live.table.Load(); old != nil {
		t = slices.Clone(*old)
	}
	t = change(t)
	live.table.Store(&t)
}

func compareBase(r *Region, p uintptr) int {
	return cmp.Compare(r.base, p)
}
