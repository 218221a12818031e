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
