package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f where root's rights to every file count for nothing.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the rights it has
		var err error
		if os.Getuid() == 0 {
			err = unix.Setfsuid(65534)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skipf("cannot act as another user: %v", err)
	}
}

// TestAFolderThatHasItsNameIsSaved where its parent can be written and not be brought to the
// disk, as that cannot be opened.
func TestAFolderThatHasItsNameIsSaved(t *testing.T) {
	root, err := os.MkdirTemp("", "named")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	parent := filepath.Join(root, "parent")
	if err := errors.Join(os.Chmod(root, 0o755), os.Mkdir(parent, 0o777), os.Chmod(parent, 0o333)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		f, err := NewFolder(filepath.Join(parent, "out"))
		if err != nil {
			t.Error(err)
			return
		}
		if err := f.WriteFile("config.json", []byte("new")); err != nil {
			t.Error(err)
		}
		if _, err := os.ReadDir(parent); err == nil {
			t.Error("the parent can be read: the test tests nothing")
		}
		if err := f.Commit(); err != nil {
			t.Errorf("commit: %v", err)
		}
	})
	wantText(t, filepath.Join(parent, "out"), "new")
}
