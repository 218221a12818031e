package self

import (
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/os/checksum"
)

// TestWhatIsNotedIsTheChecksum of the same file: a note of its state is believed, where the system tells that.
func TestWhatIsNotedIsTheChecksum(t *testing.T) {
	t.Parallel()
	time.Sleep(checksum.Settled + 100*time.Millisecond) // go test has just written it
	notes := checksum.Notes(t.TempDir())
	for range 2 {
		if sum := Noted(notes); sum != Checksum() {
			t.Errorf("%q is noted, not %q", sum, Checksum())
		}
	}
	f, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checksum.Hold(f)
	state, known := checksum.StateOf(f)
	if !known {
		t.Skip("the system does not tell when this program was written")
	}
	if sum := notes.Load(state); sum != Checksum() {
		t.Errorf("%q was noted", sum)
	}
	notes.Store(state, "another")
	if sum := Noted(notes); sum != "another" {
		t.Errorf("%q, although another is noted", sum)
	}
	if sum := Noted(""); sum != Checksum() {
		t.Errorf("without notes: %q", sum)
	}
}
