package checksum

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOfIsTheSHA256OfAllOfAFile(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4, appendix
	if sum, err := Of(strings.NewReader("abc")); err != nil || sum != abc {
		t.Errorf("%s, %v", sum, err)
	}
}

// TestANoteIsOfOneStateAndWhole: that of another state, with a bit flipped or its end cut off, is none.
func TestANoteIsOfOneStateAndWhole(t *testing.T) {
	notes := Notes(filepath.Join(t.TempDir(), "tune", "notes"))
	state := State{Device: 1, Inode: 2, Size: 3, Changed: 4, ChangedNanos: 5}
	notes.Store(state, "sum")
	if got := notes.Load(state); got != "sum" {
		t.Errorf("%q was noted", got)
	}
	later := state
	later.ChangedNanos++
	if got := notes.Load(later); got != "" {
		t.Errorf("%q is noted of what was written since", got)
	}
	text, err := os.ReadFile(notes.path(state))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(notes.path(later), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := notes.Load(later); got != "" {
		t.Errorf("%q is noted by what another name had", got)
	}
	for i := range len(text) {
		flipped := append([]byte(nil), text...)
		flipped[i] ^= 1
		for _, spoilt := range [][]byte{flipped, text[:i]} {
			if err := os.WriteFile(notes.path(state), spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := notes.Load(state); got != "" {
				t.Fatalf("%q is noted by %q", got, spoilt)
			}
		}
	}
}

func TestWithoutAFolderNothingIsNoted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	Notes("").Store(State{}, "sum")
	if got := Notes("").Load(State{}); got != "" {
		t.Errorf("%q", got)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}
