package shm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// backed returns the bytes of a file that have room on its file system.
func backed(t *testing.T, f *os.File) int64 {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestWhatIsHandedOutHasRoom in its file, before anybody touches it; what is not handed out takes none.
func TestWhatIsHandedOutHasRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := newPool(t, 0, NewFile)
	sum := int64(0)
	for _, n := range []int{100, 5 << 20, 1 << 20, 70 << 20, 3} {
		mustAlloc(t, p, n)
		sum += int64(roundUp(n))
		if got := backed(t, p.arenas[0].file); got < sum || got > sum+2*reserveAhead {
			t.Errorf("%d of %d bytes have room", got, sum)
		}
	}
}

// TestOnlyACountedSystemReservesMemory: where each page counts, memory without a file is reserved, too, after
// its seals; elsewhere nothing is, as that would take time.
func TestOnlyACountedSystemReservesMemory(t *testing.T) {
	if err := Anonymous(); err != nil {
		t.Skip(err)
	}
	defer func(before func() bool) { counted = before }(counted)
	for _, is := range []bool{false, true} {
		counted = func() bool { return is }
		p := newPool(t, 0, New)
		mustAlloc(t, p, 3<<20)
		if got := backed(t, p.arenas[0].file); got > 0 != is || is && got < 3<<20 {
			t.Errorf("counted %v: %d bytes have room", is, got)
		}
	}
}

// TestZerosTakeRoom where the file system cannot do it in another way.
func TestZerosTakeRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, err := NewFile("zeros", 4<<20, HostOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	copy(r.Bytes(), "kept")
	const from, n = 8192, 1<<20 + 4096
	if err := errors.Join(zero(r.file, from, n), r.file.Sync()); err != nil {
		t.Fatal(err)
	}
	if got := backed(t, r.file); got < n || got > n+from {
		t.Errorf("%d of %d bytes have room", got, n)
	}
	if string(r.Bytes()[:4]) != "kept" || strings.Trim(string(r.Bytes()[4:]), "\x00") != "" {
		t.Error("other bytes have changed")
	}
}

// fillFolder takes memory in files from three pools in turn, in a folder of 8 MiB, until there is none or as much
// again, and writes it all: with holes in the files, that ends the process.
func fillFolder() []string {
	if err := sandbox.LimitFolder(os.TempDir(), 8<<20); err != nil {
		return []string{"limit: " + err.Error()}
	}
	var pools []*Pool
	for i := range 3 {
		pools = append(pools, NewPool(fmt.Sprint("pool", i), 0, HostOnly, NewFile))
	}
	var pieces [][]byte
	var err error
	for n := 0; err == nil && n < 160; n++ {
		var b []byte
		if b, err = pools[n%3].Alloc(100 << 10); err == nil {
			pieces = append(pieces, b)
		}
	}
	return []string{fmt.Sprint("enough: ", len(pieces)*100<<10 > 7<<20), fmt.Sprint("error: ", err),
		fmt.Sprint("no room: ", errors.Is(err, ErrNoRoom)), fmt.Sprint("again: ", writeAll(pools, pieces))}
}

// writeAll writes to every byte, gives a piece back, and takes and writes it again.
func writeAll(pools []*Pool, pieces [][]byte) error {
	for _, b := range pieces {
		for i := range b {
			b[i] = 1
		}
	}
	pools[0].Free(pieces[0])
	b, err := pools[0].Alloc(len(pieces[0]))
	if err == nil {
		b[0], b[len(b)-1] = 1, 1
	}
	for _, p := range pools {
		err = errors.Join(err, p.Close())
	}
	return err
}

// TestAFullFolderIsAnError and not the end of the process.
func TestAFullFolderIsAnError(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=folder", "TMPDIR="+dir)
	sandbox.OwnMounts(cmd)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "limit: ") {
		t.Skipf("nothing can be mounted here: %v %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v: %.1000s", err, out)
	}
	for _, want := range []string{"enough: true", "no room: true", "again: <nil>", dir + ", where memory", "TMPDIR"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("child says %s, want %q", out, want)
		}
	}
}

// TestShapesTakeNoRoom: what is planned and never touched may be more than a folder, or the machine, has.
func TestShapesTakeNoRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := NewShapes("shapes", NewFile)
	defer p.Close()
	mustAlloc(t, p, 1<<30)
	if got := backed(t, p.arenas[0].file); got > 1<<20 {
		t.Errorf("%d bytes have room", got)
	}
}
