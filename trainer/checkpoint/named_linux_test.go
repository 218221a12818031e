package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesThatHaveTheirNamesAreSaved where the folder that they join can be written and not be
// brought to the disk, as that cannot be opened; a file that is replaced is saved there, too.
func TestFilesThatHaveTheirNamesAreSaved(t *testing.T) {
	out := filepath.Join(openToAll(t), "out")
	asNobody(t, func() {
		if err := os.Mkdir(out, 0o777); err != nil {
			t.Error(err)
			return
		}
		f, err := (&Run{dir: out}).Finish("config.json")
		if err == nil {
			err = errors.Join(f.WriteFile("config.json", []byte("new")), os.Chmod(out, 0o333))
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer os.Chmod(out, 0o777)
		if _, err := os.ReadDir(out); err == nil {
			t.Error("the folder can be read: the test tests nothing")
		}
		if err := f.Commit(); err != nil {
			t.Errorf("commit: %v", err)
		}
		if err := WriteFileAtomic(filepath.Join(out, "other"), []byte("too"), 0o644); err != nil {
			t.Errorf("replace: %v", err)
		}
	})
	for name, want := range map[string]string{"config.json": "new", "other": "too"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
}

// TestAClaimOfAnotherUserIsHeld, so that who looks for a free name takes the next.
func TestAClaimOfAnotherUserIsHeld(t *testing.T) {
	root := openToAll(t)
	for _, name := range []string{".out.tune-claim", ".out-2.tune-claim"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		if c, err := NewClaim(filepath.Join(root, "out")); !errors.Is(err, ErrHeld) || !errors.Is(err, os.ErrPermission) {
			t.Errorf("claim %v, error %v", c, err)
		}
		name, c, err := FreeName(filepath.Join(root, "out"), 2, nil)
		if err != nil || name != filepath.Join(root, "out-3") {
			t.Errorf("the next name is %q, %v", name, err)
			return
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// openToAll returns a folder that every user can write.
func openToAll(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "named")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	return root
}
