package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestAFolderIsClaimedOnce(t *testing.T) {
	root := t.TempDir()
	paths, left := []string{"real", "x/../real"}, []string{}
	if err := testdata.Symlink("real", filepath.Join(root, "link")); err != nil {
		t.Logf("no symbolic links here: %v", err)
	} else {
		paths, left = append(paths, "link"), append(left, "link")
	}
	noLocks := func(*os.File) error { return errNoLocks }
	for name, lock := range map[string]func(*os.File) error{"locks": lockFile, "no locks": noLocks} {
		t.Run(name, func(t *testing.T) {
			c, err := newClaim(filepath.Join(root, "real"), lock)
			if err != nil {
				t.Fatal(err)
			}
			for _, same := range paths {
				_, err := newClaim(filepath.Join(root, same), lock)
				if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())+" on ") {
					t.Errorf("%s is claimed a second time: %v", same, err)
				}
			}
			other, err := newClaim(filepath.Join(root, "other"), lock)
			if err != nil {
				t.Errorf("another folder: %v", err)
			} else if err := other.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if c, err = newClaim(filepath.Join(root, "real"), lock); err != nil {
				t.Fatalf("a claim that was given up: %v", err)
			}
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Error(err)
			}
			wantNames(t, root, left...)
		})
	}
}

// TestAStaleClaimIsTaken has what a process leaves that was killed: with locks, none of
// them; without, the number of a process that is gone, on this machine.
func TestAStaleClaimIsTaken(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	noLocks := func(*os.File) error { return errNoLocks }
	const gone = 1 << 30 // more than systems number processes to
	for _, tt := range []struct {
		name string
		lock func(*os.File) error
		by   holder
		want string // of the error; "" for none
	}{
		{"the lock went with the process", lockFile, holder{gone, "elsewhere", time.Now()}, ""},
		{"its process is gone", noLocks, holder{gone, host, time.Now()}, ""},
		{"its process is here", noLocks, holder{os.Getpid(), host, time.Now()}, "process " + strconv.Itoa(os.Getpid())},
		{"it is on another machine", noLocks, holder{gone, "elsewhere", time.Now()}, "if it has ended, remove "},
		{"nobody has signed it yet", noLocks, holder{}, "another run is writing to it: wait"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			text, err := json.Marshal(tt.by)
			if err != nil {
				t.Fatal(err)
			}
			write1(t, filepath.Join(root, ".out"+claimFile), string(text))
			c, err := newClaim(filepath.Join(root, "out"), tt.lock)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				wantNames(t, root)
			} else if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAClaimMakesParentsAndTakesThemAway(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "a", "b", "out")
	c, err := NewClaim(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wantNames(t, root)
	if c, err = NewClaim(out); err != nil {
		t.Fatal(err)
	}
	write1(t, filepath.Join(out, "file"), "")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wantNames(t, filepath.Dir(out), "out")
}

// TestAClaimThatCannotBeReadIsNotPassedBy: it may be another user's, who has the folder.
func TestAClaimThatCannotBeReadIsNotPassedBy(t *testing.T) {
	root := t.TempDir()
	out := filepath.Join(root, "out")
	// No file, and so not to be opened for writing by anybody, root included.
	for _, dir := range []string{out, filepath.Join(root, ".out"+claimFile)} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := NewClaim(out); err == nil {
		t.Errorf("claimed %s", c.name)
	}
	wantNames(t, out)
}

// TestALinkInTheClaimsPlaceIsNotFollowed: somebody else may have put it there, in a folder that all can write to.
func TestALinkInTheClaimsPlaceIsNotFollowed(t *testing.T) {
	root := t.TempDir()
	file, link := filepath.Join(root, "file"), filepath.Join(root, ".out"+claimFile)
	write1(t, file, "mine")
	for _, to := range []string{"file", "nothing"} {
		if err := testdata.Symlink(to, link); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		if c, err := NewClaim(filepath.Join(root, "out")); err == nil {
			t.Errorf("a link to %s is a claim", to)
			c.Close()
		} else if !strings.Contains(err.Error(), link+" is not a regular file") {
			t.Error(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
			t.Errorf("behind a link to %s: %q, %v", to, text, err)
		}
		if err := os.Remove(link); err != nil {
			t.Error(err)
		}
	}
}
