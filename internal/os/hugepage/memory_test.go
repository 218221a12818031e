package hugepage

import (
	"runtime/debug"
	"testing"
	"unsafe"
)

func TestAllocGivesZeroedAlignedMemory(t *testing.T) {
	var m Memory
	for _, n := range []int{0, 1, 100, pageSize - 1, pageSize, 3*pageSize + 4097} {
		b, err := m.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != n || cap(b) != n {
			t.Fatalf("%d bytes of capacity %d, want %d", len(b), cap(b), n)
		}
		if n > 0 && uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
			t.Errorf("%d bytes start at %p", n, b)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, b[i])
			}
			b[i] = 1
		}
		m.Free(b)
	}
	if len(m.mapped) != 0 {
		t.Errorf("%d mappings are left", len(m.mapped))
	}
	if _, err := m.Alloc(-1); err == nil {
		t.Error("a negative size was accepted")
	}
}

func TestMoreThanThereIsGivesAnError(t *testing.T) {
	if _, err := new(Memory).Alloc(1 << 60); err == nil {
		t.Error("an exbibyte was given")
	}
}

// TestFreedMemoryIsGone touches memory after Free, where it was mapped.
func TestFreedMemoryIsGone(t *testing.T) {
	var m Memory
	b, err := m.Alloc(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	m.Free(b)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("freed memory can still be read")
		}
	}()
	_ = b[len(b)/2]
	t.Log(b[len(b)/2])
}

func TestAdviceChangesNoByte(t *testing.T) {
	for _, n := range []int{0, 1, pageSize, 2*pageSize - 1, 2 * pageSize, 5*pageSize + 123} {
		b := make([]byte, n)
		for i := 0; i < n; i += 1000 {
			b[i] = byte(i)
		}
		Advise(b)
		for i := range b {
			if want := byte(i); i%1000 == 0 && b[i] != want || i%1000 > 0 && b[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, b[i])
			}
		}
	}
}
