package temp

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	family        = "tune-*.x"
	folderPattern = "tune-folder-*"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestWhatNobodyHasLockedIsRemoved: as a process leaves it that was killed. Files that
// only look alike stay.
func TestWhatNobodyHasLockedIsRemoved(t *testing.T) {
	dir := t.TempDir()
	kept := []string{"tune-file-1.y", "tune-file-a.x", "other-file-1.x", "tune-file-.x"}
	for _, name := range append([]string{"tune-file-1.x", "tune-1.x", "tune-another-file-23.x"}, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := File(dir, family, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := append(slices.Clone(kept), filepath.Base(f.Name()))
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestWhatSomebodyHasStays(t *testing.T) {
	dir := t.TempDir()
	first, err := File(dir, family, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	folder, remove, err := Folder(dir, folderPattern)
	if err != nil {
		t.Fatal(err)
	}
	second, err := File(dir, family, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_, removeOther, err := Folder(dir, folderPattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first.Name(), second.Name(), folder} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, remove := range []func() error{remove, removeOther} {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("there are %q, want the files alone", got)
	}
}

// TestFoldersWithFilesInThemStay: whatever they are called, they may be somebody's work. Sockets and empty folders are
// not.
func TestFoldersWithFilesInThemStay(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders have no locks there")
	}
	dir := t.TempDir()
	for _, name := range []string{"1", "2/empty", "3", "4/full"} {
		if err := os.MkdirAll(filepath.Join(dir, "tune-folder-"+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1/work", "4/full/work"} {
		if err := os.WriteFile(filepath.Join(dir, "tune-folder-"+name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"2/s", "4/s"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "tune-folder-"+name)})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path, remove, err := Folder(dir, folderPattern)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"tune-folder-1", "tune-folder-4", filepath.Base(path)}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if got := strings.Join(names(t, filepath.Join(dir, "tune-folder-4")), " "); got != "full s" {
		t.Errorf("of a folder that stays there is %q, want all", got)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
}

// TestManyAtOnceTakeNothingFromEachOther: each that is made sweeps, also in the moment
// between the making and the locking of another.
func TestManyAtOnceTakeNothingFromEachOther(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				f, err := File(dir, family, "file")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(f.Name()); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if err := Remove(f.Name()); err != nil {
					t.Error(err)
				}
				folder, remove, err := Folder(dir, folderPattern)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(folder); err != nil {
					t.Error(err)
				}
				if err := remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWhatCannotBeMadeIsAnError(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	if f, err := File(absent, family, "file"); err == nil {
		t.Errorf("a file %s", f.Name())
	}
	if path, _, err := Folder(absent, folderPattern); err == nil {
		t.Errorf("a folder %q", path)
	}
}
