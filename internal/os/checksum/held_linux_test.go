package checksum

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAStateIsKnownOnceItIsSettled: of a file just written, another write might leave the same times.
func TestAStateIsKnownOnceItIsSettled(t *testing.T) {
	t.Parallel() // it waits
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	Hold(f)
	written := time.Now()
	if _, known := StateOf(f); known && time.Since(written) < Settled {
		t.Error("the state of a file just written counts as known")
	}
	time.Sleep(Settled + 100*time.Millisecond)
	if _, known := StateOf(f); !known {
		t.Skip("no leases here")
	}
	g, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, known := StateOf(g); known {
		t.Error("the state of a file that is not held counts as known")
	}
}
