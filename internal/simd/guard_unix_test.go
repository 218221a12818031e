//go:build unix

package simd

import (
	"os"
	"syscall"
	"testing"
)

// noGuards leaves the page after guarded memory open. It is for emulators that fault on a
// vector load beside a closed page although its mask leaves that page alone, as QEMU 7.2 does.
var noGuards = os.Getenv("TUNE_TEST_NO_GUARDS") != ""

// guardedBytes returns memory that ends where that of the process ends: the byte after
// it cannot be read or written.
func guardedBytes(t testing.TB, size int) []byte {
	page := syscall.Getpagesize()
	room := (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	if !noGuards {
		if err := syscall.Mprotect(m[room:], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[room-size : room]
}
