// Package hugepage makes memory for tensors that no other process needs, in large pages
// where the operating system has them.
//
// A page of 2 MiB instead of 4 KiB is found 512 times as often in the processor's table of
// recent pages, and touched for the first time in one fault instead of 512. Memory that
// processes share gets them only afterwards on common systems (shm.Settle), and Go's own heap does not
// ask for them; besides, gigabytes on that heap would let as many of garbage gather before a
// collection.
package hugepage

import (
	"fmt"
	"sync"
	"unsafe"
)

// Memory hands out memory of this process alone. The zero Memory is ready for use, by
// several goroutines at once. It implements core.Memory.
type Memory struct {
	mu     sync.Mutex
	mapped map[*byte][]byte // by what was handed out
}

// pageSize is that of a large page, and the least size that is worth one.
const pageSize = 2 << 20

// Alloc returns n zeroed bytes that start at a multiple of 64.
func (m *Memory) Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("hugepage: cannot allocate %d bytes", n)
	}
	if n < pageSize {
		return onHeap(n), nil
	}
	data, err := mapPages(n + pageSize) // room to start at a large page; untouched, it costs nothing on most systems
	if err != nil {
		return nil, fmt.Errorf("hugepage: cannot map %d bytes: %w", n, err)
	}
	from := int(-uintptr(unsafe.Pointer(&data[0])) % pageSize)
	b := data[from : from+n : from+n]
	advise(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mapped == nil {
		m.mapped = map[*byte][]byte{}
	}
	m.mapped[&b[0]] = data
	return b, nil
}

// Free gives memory of Alloc back; it must not be used any more.
func (m *Memory) Free(b []byte) {
	if len(b) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.mapped[&b[0]]; ok {
		delete(m.mapped, &b[0])
		unmapPages(data)
	}
}

// Advise asks for large pages for memory on Go's heap that nothing has touched yet, and changes nothing else.
func Advise(b []byte) {
	if len(b) < 2*pageSize {
		return
	}
	from := int(-uintptr(unsafe.Pointer(&b[0])) % pageSize)
	advise(b[from : from+(len(b)-from)/pageSize*pageSize])
}

// onHeap returns aligned memory that the garbage collector takes care of.
func onHeap(n int) []byte {
	const align = 64
	b := make([]byte, n+align)
	from := int(-uintptr(unsafe.Pointer(&b[0])) % align)
	return b[from : from+n : from+n]
}
