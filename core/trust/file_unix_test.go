//go:build unix

package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// stranger is a user and a group that the tests do not run as.
const stranger = 54321

// plugin makes a file in folders of its own, as an ordinary umask does, and returns it
// with the folder above.
func plugin(t *testing.T) (file, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dir")
	file = filepath.Join(dir, "plugins", "fast")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file, dir
}

func check(t *testing.T, path string) error {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return CheckFile(f, path)
}

func TestFilesThatOthersCanWriteAreRefused(t *testing.T) {
	chmod := func(t *testing.T, path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	chown := func(t *testing.T, path string, uid, gid int) {
		if os.Geteuid() != 0 {
			t.Skip("only root gives files away")
		}
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		change func(t *testing.T, file, dir string)
		want   string // "" for trusted
	}{
		"ordinary": {func(t *testing.T, file, dir string) {}, ""},
		"the user's alone": {func(t *testing.T, file,
			dir string) {
			chmod(t, file, 0o700)
			chmod(t, filepath.Dir(file), 0o700)
		}, ""},
		"everybody writes the file": {func(t *testing.T, file, dir string) { chmod(t, file, 0o757) },
			"everybody can write to the file FILE; run chmod o-w FILE"},
		"everybody writes the folder": {func(t *testing.T, file, dir string) { chmod(t, filepath.Dir(file), 0o777) },
			"everybody can write to the folder FOLDER; run chmod o-w FOLDER"},
		"a folder like /tmp": {func(t *testing.T, file,
			dir string) {
			chmod(t, filepath.Dir(file), 0o777|os.ModeSticky)
		}, "everybody can write to the folder FOLDER; copy the plugin"},
		"everybody writes further up": {func(t *testing.T, file, dir string) { chmod(t, dir, 0o777) },
			"everybody can rename what is in the folder DIR"},
		"below a folder like /tmp": {func(t *testing.T, file, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, ""},
		"a stranger's file": {func(t *testing.T, file, dir string) { chown(t, file, stranger, -1) },
			"the file FILE belongs to user 54321, who could change it; run chown"},
		"a stranger's folder": {func(t *testing.T, file, dir string) { chown(t, filepath.Dir(file), stranger, -1) },
			"the folder FOLDER belongs to user 54321"},
		"a stranger's folder above": {func(t *testing.T, file, dir string) { chown(t, dir, stranger, -1) }, ""},
		"a strange group reads":     {func(t *testing.T, file, dir string) { chown(t, file, -1, stranger) }, ""},
		"a strange group writes": {func(t *testing.T, file,
			dir string) {
			chown(t, file, -1, stranger)
			chmod(t, file, 0o775)
		},
			"group 54321 can write to the file FILE; run chmod g-w FILE"},
		"a strange group writes folder": {func(t *testing.T, file, dir string) {
			chown(t, filepath.Dir(file), -1, stranger)
			chmod(t, filepath.Dir(file), 0o775)
		}, "group 54321 can write to the folder FOLDER"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, dir := plugin(t)
			tc.change(t, file, dir)
			err := check(t, file)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := strings.NewReplacer("FILE", file, "FOLDER", filepath.Dir(file), "DIR", dir).Replace(tc.want)
			if !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v\nwant %s", err, want)
			}
		})
	}
}

// TestGroupsThatMayWrite: with an umask of 002, files can be written by the group that
// the system made for the user alone, and by no other.
func TestGroupsThatMayWrite(t *testing.T) {
	file, _ := plugin(t)
	if err := os.Chmod(file, 0o775); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	me := identity{user: uint32(os.Geteuid()), group: uint32(os.Getegid())}
	for _, tc := range []struct {
		name    string
		group   uint32
		private bool
		ok      bool
	}{
		{"private", me.group, true, true},
		{"shared with others", me.group, false, me.group == rootID},
		{"another's private one", me.group + 1, true, me.group == rootID},
	} {
		me := identity{user: me.user, group: tc.group, privateGroup: tc.private}
		if err := me.check(file, info); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestLinksAreFollowedToTheirFolders: who can write to the folder of either end of a link
// decides what is started.
func TestLinksAreFollowedToTheirFolders(t *testing.T) {
	file, _ := plugin(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := check(t, link); err != nil {
		t.Errorf("a link between good folders: %v", err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := check(t, link); !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), filepath.Dir(file)) {
		t.Errorf("everybody can replace what the link leads to: %v", err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := check(t, link); err != nil {
		t.Errorf("a sticky folder keeps the user's file: %v", err)
	}
	if err := os.Chmod(filepath.Dir(link), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := check(t, link); !errors.Is(err, core.ErrUntrusted) {
		t.Errorf("everybody can replace the link: %v", err)
	}
}
