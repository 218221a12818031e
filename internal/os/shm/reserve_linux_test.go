package shm

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatIsAllocatedHasItsRoom, so that somebody else cannot take it before it is written to.
func TestWhatIsAllocatedHasItsRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := newPool(t, 0, NewFile)
	for range 3 {
		mustAlloc(t, p, 1<<20)
	}
	if n := taken(t, p.arenas[0].file); n < 3<<20 || n >= p.arenas[0].Size() {
		t.Errorf("a file of %d bytes has room for %d, of which 3 MiB are allocated", p.arenas[0].Size(), n)
	}
}

// TestZerosTakeRoom, too, where a file system cannot reserve it otherwise.
func TestZerosTakeRoom(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const from, n = 5 << 20, 1<<20 + 10
	if err := writeZeros(f, from, n); err != nil {
		t.Fatal(err)
	}
	if got := taken(t, f); got < n || got >= from {
		t.Errorf("room for %d bytes, want %d", got, n)
	}
}

// taken returns how many bytes a file takes of its file system.
func taken(t *testing.T, f *os.File) int64 {
	t.Helper()
	s, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return s.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestASmallFileSystemIsFull of what is allocated and not written to yet.
func TestASmallFileSystemIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tune-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	t.Setenv("TMPDIR", dir)
	p := newPool(t, 0, NewFile)
	for range 3 {
		mustAlloc(t, p, 2<<20)
	}
	_, err := p.Alloc(4 << 20)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v", err)
	}
	clear(mustAlloc(t, p, 1<<20)) // what is left can be used
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
