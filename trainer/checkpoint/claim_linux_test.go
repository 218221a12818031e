package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAClaimThatCannotBeSignedIsNone: nothing is left open, and nothing stays that would be
// taken for somebody's.
func TestAClaimThatCannotBeSignedIsNone(t *testing.T) {
	root := t.TempDir()
	var opened []*os.File
	readOnly := func(result error) func(*os.File) error {
		return func(f *os.File) error {
			opened = append(opened, f)
			r, err := os.Open(f.Name())
			if err != nil {
				return err
			}
			defer r.Close()
			if err := unix.Dup3(int(r.Fd()), int(f.Fd()), unix.O_CLOEXEC); err != nil {
				return err
			}
			return result
		}
	}
	for name, result := range map[string]error{"locks": nil, "no locks": errNoLocks} {
		t.Run(name, func(t *testing.T) {
			opened = nil
			if c, err := newClaim(filepath.Join(root, "out"), readOnly(result)); err == nil {
				t.Errorf("claimed %v", c)
			}
			wantNames(t, root)
			for _, f := range opened {
				if err := f.Close(); !errors.Is(err, os.ErrClosed) {
					t.Errorf("%s was left open", f.Name())
				}
			}
		})
	}
}

// TestAClaimIsOfTheFileThatHasTheName: whoever had it may remove it, and a third process make it anew, just before it
// is locked.
func TestAClaimIsOfTheFileThatHasTheName(t *testing.T) {
	for what, meanwhile := range map[string]func(name string) error{
		"removed":  os.Remove,
		"replaced": func(name string) error { return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o666)) },
	} {
		out, calls := filepath.Join(t.TempDir(), "out"), 0
		c, err := newClaim(out, func(f *os.File) error {
			if calls++; calls == 1 {
				if err := meanwhile(f.Name()); err != nil {
					return err
				}
			}
			return lockFile(f)
		})
		if err != nil || calls != 2 {
			t.Fatalf("%s: %v after %d locks", what, err, calls)
		}
		if other, err := NewClaim(out); !errors.Is(err, ErrHeld) {
			t.Errorf("%s: there is another claim %v, %v", what, other, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
