package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// TestAFullDiskCostsNoLine limits the size of files for a while, in the middle of a line.
func TestAFullDiskCostsNoLine(t *testing.T) {
	sandbox.FullDisk(t, aFullDiskCostsNoLine)
}

func aFullDiskCostsNoLine(t *testing.T, limit func(size uint64), lift func()) {
	path := filepath.Join(t.TempDir(), File)
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
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
			lift()
		}
		if err := w.Record(step(n+1, float64(n))); (err != nil) != (n >= 2 && n < 5) {
			t.Fatalf("step %d: %v", n+1, err)
		}
	}
	full()
	if err := w.Record(step(10, 9)); err == nil {
		t.Fatal("the file is larger than it may be")
	}
	lift()
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

// TestADiskThatStaysFullTakesNoMoreMemory: from some step on nothing waits for room but how long operations took, and
// the journal says which is the first that it lacks.
func TestADiskThatStaysFullTakesNoMoreMemory(t *testing.T) {
	sandbox.FullDisk(t, aDiskThatStaysFullTakesNoMoreMemory)
}

func aDiskThatStaysFullTakesNoMoreMemory(t *testing.T, limit func(size uint64), lift func()) {
	path := filepath.Join(t.TempDir(), File)
	w, err := Open(path)
	if err == nil {
		err = w.Record(start(0))
	}
	if err != nil {
		t.Fatal(err)
	}
	limit(1)
	lacking := 0
	for n := 1; n < 100_000 && (lacking == 0 || n < lacking+100); n++ {
		for _, e := range []Event{step(n, 1), &Eval{Step: n}, &Kernels{Step: n}} {
			if err := w.Record(e); err == nil {
				t.Fatal("the file is larger than it may be")
			}
		}
		if lacking == 0 && len(w.unwritten) > mostUnwritten {
			lacking = n + 1
		}
	}
	if lacking == 0 || len(w.unwritten) > mostUnwritten+100<<10 {
		t.Fatalf("%d bytes are waiting, %d at most", len(w.unwritten), mostUnwritten)
	}
	lift()
	for n := range 3 {
		if err := w.Record(step(lacking+100+n, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := read(t, path)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Text, fmt.Sprintf("lacks step %d ", lacking)) {
		t.Errorf("warnings %+v", r.Warnings)
	}
	// The first with which there is room finds as much waiting as before.
	if want := lacking - 1 + 2; len(r.Steps) != want || r.Steps[want-1].Step != lacking+102 {
		t.Errorf("%d steps to %d, want %d to %d", len(r.Steps), r.Steps[len(r.Steps)-1].Step, want, lacking+102)
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
