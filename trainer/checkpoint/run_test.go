package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// write1 puts a file into a folder, making that.
func write1(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func openRun(t *testing.T, dir string, fresh bool) *Run {
	t.Helper()
	r, err := OpenRun(dir, fresh)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestLeftoversOfAKilledRunAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"checkpoint-2", "checkpoint-4.partial-01234567", "checkpoint-1.partial-89abcdef",
		"final.partial-01234567",
		"mine.partial-01234567", "checkpoint-x"} {
		write1(t, filepath.Join(dir, name, "file"), "")
	}
	openRun(t, dir, false)
	want := []string{"checkpoint-2", "checkpoint-x", "mine.partial-01234567"}
	if got := folderNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q is left, want %q", got, want)
	}
}

func TestOnlyCheckpointsAreSteps(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"checkpoint-10", "checkpoint-9", "checkpoint-010", "checkpoint-+8", "checkpoint--7",
		"checkpoint-", "checkpoint-6.partial-1", "checkpoint6"} {
		write1(t, filepath.Join(dir, name, "file"), "")
	}
	write1(t, filepath.Join(dir, "checkpoint-11"), "not a folder")
	if got, err := Steps(dir); err != nil || !slices.Equal(got, []int{9, 10}) {
		t.Errorf("steps %v, %v; want 9 and 10", got, err)
	}
}

// TestALinkIsACheckpoint, as of a run whose checkpoints were moved to another disk, and what it leads to stays.
func TestALinkIsACheckpoint(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write1(t, filepath.Join(dir, "checkpoint-5", "file"), "")
	write1(t, filepath.Join(other, "folder", "file"), "")
	for name, to := range map[string]string{"checkpoint-4": "folder", "checkpoint-6": "folder",
		"checkpoint-7": "folder/file", "checkpoint-8": "absent"} {
		if err := os.Symlink(filepath.Join(other, to), filepath.Join(dir, name)); err != nil {
			t.Skip("symbolic links take a privilege here: ", err)
		}
	}
	if got, err := Steps(dir); err != nil || !slices.Equal(got, []int{4, 5, 6, 8}) {
		t.Errorf("steps %v, %v; want 4, 5, 6 and 8", got, err)
	}
	if err := openRun(t, dir, false).Rotate(2); err != nil {
		t.Error(err)
	}
	if got, err := Steps(dir); err != nil || !slices.Equal(got, []int{6, 8}) {
		t.Errorf("steps %v, %v; want 6 and 8", got, err)
	}
	if got := folderNames(t, filepath.Join(other, "folder")); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the folder that a link led to has %q", got)
	}
}

func TestRotateKeepsTheNewestAndTheExceptions(t *testing.T) {
	for _, tt := range []struct {
		keep    int
		besides []int
		want    []int
	}{{0, nil, []int{2, 4, 6, 10}}, {1, nil, []int{10}}, {2, []int{2, 99}, []int{2, 6, 10}},
		{3, []int{10}, []int{4, 6, 10}}, {9, nil, []int{2, 4, 6, 10}}} {
		dir := t.TempDir()
		for _, step := range []int{2, 4, 6, 10} {
			write1(t, filepath.Join(StepDir(dir, step), "file"), "")
		}
		if err := openRun(t, dir, false).Rotate(tt.keep, tt.besides...); err != nil {
			t.Error(err)
		}
		if got, err := Steps(dir); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("keep %d besides %v: %v, %v; want %v", tt.keep, tt.besides, got, err, tt.want)
		}
		if n := len(folderNames(t, dir)); n != len(tt.want) {
			t.Errorf("keep %d: %d names are left, want %d", tt.keep, n, len(tt.want))
		}
	}
}

func TestTheLastFilesOfTheModelNeedTheOthers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "m", "z"} {
		write1(t, filepath.Join(dir, name), "old")
	}
	write1(t, filepath.Join(StepDir(dir, 3), "m"), "checkpoint")
	f, err := openRun(t, dir, false).Finish("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "m", "z"} {
		write1(t, f.Path(name), "new")
	}
	// Something that cannot be replaced: the commit stops there, and m must be gone.
	if err := errors.Join(os.Remove(filepath.Join(dir, "z")),
		os.MkdirAll(filepath.Join(dir, "z", "x"), 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if _, err := os.Stat(filepath.Join(dir, "m")); err == nil {
		t.Error("half a model has the last of its files")
	}
	if err := os.RemoveAll(filepath.Join(dir, "z")); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "m", "z"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "new" {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	if got := folderNames(t, dir); !slices.Equal(got, []string{"a", "checkpoint-3", "m", "z"}) {
		t.Errorf("the folder has %q", got)
	}
}

func TestAFreshRunWantsAnEmptyFolderOfItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := openRun(t, dir, true)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the empty folder is left")
	}
	write1(t, filepath.Join(dir, "file"), "")
	if _, err := OpenRun(dir, true); err == nil {
		t.Error("a folder with a file was taken")
	}
	if _, err := OpenRun(dir, true, "file"); err != nil {
		t.Error(err)
	}
	empty := t.TempDir()
	for _, names := range [][]string{nil, {claimFile}} { // of this process, as it cannot be beside the folder
		if err := openRun(t, empty, true).Close(); err != nil {
			t.Fatal(err)
		}
		if got := folderNames(t, empty); !slices.Equal(got, names) { // the folder was there before
			t.Errorf("%q are left, want %q", got, names)
		}
		write1(t, filepath.Join(empty, claimFile), "")
	}
}

func TestFreeSpaceIsThatOfTheNearestFolder(t *testing.T) {
	dir := t.TempDir()
	a, known := Free(dir)
	if !known {
		t.Skip("this system does not tell")
	}
	if b, ok := Free(filepath.Join(dir, "not", "yet")); !ok || a == 0 || b == 0 {
		t.Errorf("free: %d, and %d below it", a, b)
	}
}
