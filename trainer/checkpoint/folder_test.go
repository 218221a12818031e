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
	wantNames(t, out, markerName, "config.json", "sub")
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
	for path, want := range map[string]string{out: "not empty", filepath.Join(out, "config.json"): "config.json"} {
		for name, start := range map[string]func(string) (*Folder, error){"NewFolder": NewFolder, "NewReplacement": NewReplacement} {
			if _, err := start(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of %s: error %v, want it to say %q", name, path, err, want)
			}
		}
	}
	wantText(t, out, "mine")
	wantNames(t, root, "out")
}

// What appears at the path between start and commit is not overwritten either.
func TestCommitLooksAgain(t *testing.T) {
	for name, commit := range map[string]func(*Folder) error{"Commit": (*Folder).Commit, "CommitReplacing": (*Folder).CommitReplacing} {
		out := filepath.Join(t.TempDir(), "out")
		f, err := NewFolder(out)
		fill(t, f, err, "new")
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		writeImage(t, filepath.Join(out, "config.json"), []byte("mine"))
		if err := commit(f); err == nil {
			t.Errorf("%s overwrote a folder", name)
		}
		wantText(t, out, "mine")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		if err := commit(f); err != nil {
			t.Errorf("%s after the remedy: %v", name, err)
		}
		wantText(t, out, "new")
	}
}

func TestCommitReplacingSwapsOurOwnFolder(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	for _, text := range []string{"step 10", "step 20", "step 30"} {
		f, err := NewReplacement(out)
		if err := fill(t, f, err, text).CommitReplacing(); err != nil {
			t.Fatal(err)
		}
		wantText(t, out, text)
		wantNames(t, root, "out")
	}
	if _, err := NewFolder(out); err == nil {
		t.Error("NewFolder accepts a folder that is there")
	}
	f, err := NewReplacement(out)
	if err := fill(t, f, err, "step 40").Commit(); err == nil {
		t.Error("Commit replaced a folder")
	}
	wantText(t, out, "step 30")
}

func TestFailedSwapPutsTheOldFolderBack(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	f, err := NewFolder(out)
	if err := fill(t, f, err, "old").Commit(); err != nil {
		t.Fatal(err)
	}
	if err := swap(filepath.Join(root, "absent"), out, filepath.Join(root, "aside")); err == nil {
		t.Error("a folder that does not exist took the place of another")
	}
	wantText(t, out, "old")
	wantNames(t, root, "out")
}
