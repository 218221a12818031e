//go:build unix

package simd

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// noGuards leaves the page after guarded memory open. It is for emulators that fault on a
// vector load beside a closed page although its mask leaves that page alone, as QEMU 7.2 does.
var noGuards = os.Getenv("TUNE_TEST_NO_GUARDS") != ""

// guardedBytes returns memory that ends where that of the process ends: the byte after
// it cannot be read or written.
func guardedBytes(t testing.TB, size int) []byte {
	page := unix.Getpagesize()
	room := (size + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, room+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	if !noGuards {
		if err := unix.Mprotect(m[room:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[room-size : room]
}
