package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
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
	folder, link := filepath.Join(root, "real"), filepath.Join(root, "link")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testdata.Symlink(folder, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	f, err := NewFolder(link)
	if err := fill(t, f, err, "new").Commit(); err != nil {
		t.Fatal(err)
	}
	wantText(t, folder, "new")
	wantNames(t, root, "link", "real")
}

func TestUsersFilesAreNeverReplaced(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	writeImage(t, filepath.Join(out, "config.json"), []byte("mine"))
	for path, want := range map[string]string{out: "choose another folder or remove it",
		filepath.Join(out, "config.json"): "config.json"} {
		if _, err := NewFolder(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("NewFolder(%s): error %v, want it to say %q", path, err, want)
		}
	}
	wantText(t, out, "mine")
	wantNames(t, root, "out")
}

// What appears at the path between start and commit is not overwritten either, and what was
// to come there is kept beside it.
func TestCommitLooksAgain(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	f, err := NewFolder(out)
	fill(t, f, err, "new")
	taken, err := NewClaim(out + "-2")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	writeImage(t, filepath.Join(out, "config.json"), []byte("mine"))
	inTheWay := filepath.Join(root, ".out-3"+claimFile)
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil || errors.As(err, new(*KeptError)) || !errors.Is(err, errNotEmpty) ||
		!strings.Contains(err.Error(), inTheWay) {
		t.Errorf("commit without any place: %v", err)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	wantKept(t, f, out+"-3", "now it is not empty")
	wantText(t, out, "mine")
	wantText(t, out+"-3", "new")
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
	wantNames(t, root, "out", "out-3")

	file := filepath.Join(root, "file")
	f, err = NewFolder(file)
	fill(t, f, err, "new")
	write1(t, file, "mine")
	wantKept(t, f, file+"-2", "now it is a file")
	wantText(t, file+"-2", "new")
}

// TestAFileThatCannotBeWrittenIsAnError: without it the folder would be less than it says.
func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	f, err := NewFolder(filepath.Join(t.TempDir(), "out"))
	fill(t, f, err, "new")
	if err := os.Mkdir(f.Path("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"a file": f.WriteFile("folder", nil),
		"a file below a file": f.WriteFile("config.json/a", nil), "tensors": f.WriteTensors("folder", nil, nil)} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	f, err = NewFolder(filepath.Join(t.TempDir(), "out"))
	fill(t, f, err, "new")
	if err := errors.Join(os.Mkdir(f.Path(SumsFile), 0o755), f.WriteFile("a", nil)); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil {
		t.Error("a folder without its checksums was committed")
	}
	wantNames(t, filepath.Dir(f.path), filepath.Base(f.dir))
}

// TestAFileThatCouldNotBeWrittenIsNotForgotten by a caller that goes on; the same file may be written after all.
func TestAFileThatCouldNotBeWrittenIsNotForgotten(t *testing.T) {
	for name, write := range map[string]func(*Folder) error{
		"f":             func(f *Folder) error { return f.WriteFile("f", []byte("f")) },
		"in/f":          func(f *Folder) error { return f.WriteFile("in/f", []byte("f")) },
		"f.safetensors": func(f *Folder) error { return f.WriteTensors("f.safetensors", nil, nil) },
	} {
		dir := filepath.Join(t.TempDir(), "out")
		f, err := NewFolder(dir)
		fill(t, f, err, "{}")
		if err := os.MkdirAll(f.Path(name), 0o777); err != nil {
			t.Fatal(err)
		}
		failed := write(f)
		if failed == nil {
			t.Fatalf("%s: a file took the place of a folder", name)
		}
		if err := f.Commit(); !errors.Is(err, failed) {
			t.Errorf("%s: the commit's error is %v, want %v", name, err, failed)
		}
		if err := os.Remove(f.Path(name)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(f), f.Commit(), Verify(dir)); err != nil {
			t.Errorf("%s: written again: %v", name, err)
		}
	}
}

// TestTheFirstNameThatIsFree has no folder and no claim; where it cannot be known, that is an error.
func TestTheFirstNameThatIsFree(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	write1(t, filepath.Join(out, "file"), "")
	taken, err := NewClaim(out + "-2")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var held []string
	tell := func(name string) { held = append(held, name) }
	for path, want := range map[string]string{out: out + "-3", filepath.Join(root, "new"): filepath.Join(root, "new"),
		filepath.Join(out, "file", "x"): ""} {
		name, claim, err := FreeName(path, 1, tell)
		if name != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", path, name, err, want)
		}
		if err == nil {
			claim.Close()
		}
	}
	if !slices.Equal(held, []string{out + "-2"}) {
		t.Errorf("held are %q", held)
	}
}

// wantKept commits a folder whose place is taken.
func wantKept(t *testing.T, f *Folder, path, why string) {
	t.Helper()
	var kept *KeptError
	if err := f.Commit(); !errors.As(err, &kept) || kept.Path != path ||
		!strings.HasSuffix(err.Error(), why+"; the model is in "+path) {
		t.Errorf("commit to a place that is taken: %v, want %q", err, why)
	}
}

// A folder that is there stays: it may be where a file system is mounted, or in a folder
// that nobody may write to.
func TestAnEmptyFolderIsNotReplaced(t *testing.T) {
	out := t.TempDir()
	before, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	left := "final.partial-01234567" // of a run that was killed
	write1(t, filepath.Join(out, left, "run.jsonl"), "")
	f, err := NewFolder(out)
	if err := fill(t, f, err, "new").Commit(); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(out)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder is another one: %v", err)
	}
	wantNames(t, out, "config.json", left)
	if f, err = NewFolder(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	writeImage(t, filepath.Join(f.path, "mine"), nil)
	var kept *KeptError
	if err := fill(t, f, nil, "new").Commit(); !errors.As(err, &kept) {
		t.Errorf("commit to a folder with a file: %v", err)
	} else {
		wantText(t, kept.Path, "new")
		os.RemoveAll(kept.Path)
	}
}

// TestFilesThatWereStoppedHalfwayFollowTheOthers: a commit to an empty folder that ends in the middle can be repeated.
func TestFilesThatWereStoppedHalfwayFollowTheOthers(t *testing.T) {
	out := t.TempDir()
	left := "final.partial-00000000" // which does not count, is in the way, and comes before that of any other number
	write1(t, filepath.Join(out, left, "run.jsonl"), "")
	f, err := NewFolder(out)
	fill(t, f, err, "new")
	write1(t, f.Path("a"), "new")
	write1(t, f.Path(left), "new")
	if err := f.Commit(); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	wantNames(t, out, "a", left, filepath.Base(f.dir))
	if err := os.RemoveAll(filepath.Join(out, left)); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Error(err)
	}
	wantText(t, out, "new")
	wantNames(t, out, "a", "config.json", left)
}

func TestALinkToNothingLeadsToTheFolder(t *testing.T) {
	root := t.TempDir()
	if err := testdata.Symlink("real", filepath.Join(root, "link")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	f, err := NewFolder(filepath.Join(root, "link"))
	if err := fill(t, f, err, "new").Commit(); err != nil {
		t.Fatal(err)
	}
	wantText(t, filepath.Join(root, "real"), "new")
	wantNames(t, root, "link", "real")
}

// TestFilesOfAFolderInIt: they are compared, and take the place of older ones where the model joins what is there.
func TestFilesOfAFolderInIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	inner := filepath.Join(dir, "more", "one.jinja")
	for _, text := range []string{"first", "second"} {
		run, err := OpenRun(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		f, err := run.Finish("config.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.WriteFile("config.json", nil), f.WriteFile("more/one.jinja", []byte(text)), f.Commit(),
			Verify(dir), run.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(inner); string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	wantNames(t, dir, "config.json", "more", SumsFile)
	if err := os.WriteFile(inner, []byte("third"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Verify(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), inner) {
		t.Errorf("error %v, want one about %s", err, inner)
	}
	for _, name := range []string{"../one", "more/../config.json", "/etc/passwd"} {
		line := strings.Repeat("0", 64) + "  " + name + "\n"
		text := fmt.Sprintf("%s%s%x\n", line, selfLine, sha256.Sum256([]byte(line)))
		if _, err := parseSums([]byte(text)); !errors.Is(err, ErrDamaged) {
			t.Errorf("a checksum of %s: %v", name, err)
		}
	}
}
