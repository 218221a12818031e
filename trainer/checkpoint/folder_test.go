package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fill writes one file with the given text to the folder.
func fill(t testing.TB, f *Folder, err error, text string) *Folder {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	writeImage(t, f.Path("config.json"), []byte(text))
	return f
}

func wantText(t testing.TB, dir, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", dir, got, err, want)
	}
}

func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	if got := folderNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestFolderAppearsAtCommitAndNotBefore(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "a", "out")
	f, err := NewFolder(out)
	fill(t, f, err, "new")
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder exists before the commit")
	}
	if err := os.Mkdir(f.Path("sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeImage(t, f.Path(filepath.Join("sub", "deep")), nil)
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	wantText(t, out, "new")
	wantNames(t, out, "config.json", "sub")
	wantNames(t, filepath.Dir(out), "out")

	if err := f.Abort(); err != nil {
		t.Error(err)
	}
	wantText(t, out, "new") // Abort after Commit does nothing
	if err := f.Commit(); err == nil {
		t.Error("committed twice")
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	root := t.TempDir()
	f, err := NewFolder(filepath.Join(root, "out"))
	fill(t, f, err, "new")
	for range 2 {
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
	}
	wantNames(t, root)
	if err := f.Commit(); err == nil {
		t.Error("committed after Abort")
	}
}

func TestEmptyFolderIsTaken(t *testing.T) {
	out := t.TempDir()
	f, err := NewFolder(out)
	if err := fill(t, f, err, "new").Commit(); err != nil {
		t.Fatal(err)
	}
	wantText(t, out, "new")
}

func TestFolderThroughALinkKeepsTheLink(t *testing.T) {
	root := t.TempDir()
	real, link := filepath.Join(root, "real"), filepath.Join(root, "link")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	f, err := NewFolder(link)
	if err := fill(t, f, err, "new").Commit(); err != nil {
		t.Fatal(err)
	}
	wantText(t, real, "new")
	wantNames(t, root, "link", "real")
}

func TestUsersFilesAreNeverReplaced(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	writeImage(t, filepath.Join(out, "config.json"), []byte("mine"))
	for path, want := range map[string]string{out: "choose another folder or remove it", filepath.Join(out, "config.json"): "config.json"} {
		if _, err := NewFolder(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("NewFolder(%s): error %v, want it to say %q", path, err, want)
		}
	}
	wantText(t, out, "mine")
	wantNames(t, root, "out")
}

// What appears at the path between start and commit is not overwritten either.
func TestCommitLooksAgain(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	f, err := NewFolder(out)
	fill(t, f, err, "new")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	writeImage(t, filepath.Join(out, "config.json"), []byte("mine"))
	if err := f.Commit(); err == nil {
		t.Error("Commit overwrote a folder")
	}
	wantText(t, out, "mine")
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Errorf("Commit after the remedy: %v", err)
	}
	wantText(t, out, "new")
}
