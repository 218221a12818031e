package journal

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAFullDiskCostsNoLine limits the size of files for a while, in the middle of a line.
func TestAFullDiskCostsNoLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(to uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: to, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { limit(old.Cur) })
	full := func() { // but for the beginning of a line
		info, err := w.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		limit(uint64(info.Size()) + 50)
	}
	if err := w.Record(start(0)); err != nil {
		t.Fatal(err)
	}
	for n := range 9 {
		if n == 2 {
			full()
		}
		if n == 5 {
			limit(old.Cur)
		}
		if err := w.Record(step(n+1, float64(n))); (err != nil) != (n >= 2 && n < 5) {
			t.Fatalf("step %d: %v", n+1, err)
		}
	}
	full()
	if err := w.Record(step(10, 9)); err == nil {
		t.Fatal("the file is larger than it may be")
	}
	limit(old.Cur)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := read(t, path)
	if len(r.Steps) != 10 {
		t.Fatalf("%d steps, want 10", len(r.Steps))
	}
	for i, s := range r.Steps {
		if s.Step != i+1 || s.Loss != float64(i) {
			t.Errorf("step %d is %+v", i+1, s)
		}
	}
}

// TestAFolderThatIsRemovedCostsNoLine: neither before it is made again, nor after.
func TestAFolderThatIsRemovedCostsNoLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for _, again := range []bool{false, true} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		w, err := Open(filepath.Join(dir, File))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []Event{start(0), step(1, 1), nil, step(2, 2)} {
			if e != nil {
				err = w.Record(e)
			} else if err = os.RemoveAll(dir); err == nil && again {
				err = os.Mkdir(dir, 0o777)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if r := read(t, dir); len(r.Steps) != 2 {
			t.Errorf("%d steps, want 2", len(r.Steps))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
