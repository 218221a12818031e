//go:build amd64 || arm64

package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// TestALossOfPowerLeavesWholeFiles: what is under a name has reached the disk before it got that, and the name after
// it; the last files of a model come when the others have theirs. Where the system fails, that is an error, unless the
// name is there already (~).
func TestALossOfPowerLeavesWholeFiles(t *testing.T) {
	folder := func(f *Folder, err error) error {
		if err != nil {
			return err
		}
		return errors.Join(f.WriteFile("config.json", []byte("1")), f.WriteFile("in/a", []byte("2")), f.Commit())
	}
	tests := map[string]struct {
		do   func(dir string) error
		want string
	}{
		"a file": {func(dir string) error { return WriteFileAtomic(filepath.Join(dir, "f"), []byte("1"), 0o644) },
			"sync f.partial, rename f.partial f, ~sync ."},
		"a new file": {func(dir string) error {
			return WriteNew(filepath.Join(dir, "f"), 0o644, func(io.Writer) error { return nil })
		}, "sync f.partial, ~link f.partial f, ~sync ."},
		"a folder": {func(dir string) error { return folder(NewFolder(filepath.Join(dir, "out"))) },
			"sync out.partial, sync out.partial/config.json, sync out.partial/in, sync out.partial/in/a, " +
				"sync out.partial/tune.sha256, remove out, rename out.partial out, ~sync ."},
		"a place that is taken": {func(dir string) error {
			f, err := NewFolder(filepath.Join(dir, "out"))
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, "out", "mine"), 0o777)
			}
			err = folder(f, err)
			if kept := new(KeptError); errors.As(err, &kept) {
				return nil
			}
			return err
		}, "sync out.partial, sync out.partial/config.json, sync out.partial/in, sync out.partial/in/a, " +
			"sync out.partial/tune.sha256, rename out.partial out-2, ~sync ."},
		"a run": {func(dir string) error {
			r, err := OpenRun(filepath.Join(dir, "out"), true)
			if err != nil {
				return err
			}
			return folder(r.Finish("config.json"))
		}, "sync ., sync out/final.partial, sync out/final.partial/config.json, sync out/final.partial/in, " +
			"sync out/final.partial/in/a, sync out/final.partial/tune.sha256, remove out/config.json, ~sync out, " +
			"rename out/final.partial/in/a out/in/a, ~sync out/in, " +
			"rename out/final.partial/tune.sha256 out/tune.sha256, ~sync out, " +
			"rename out/final.partial/config.json out/config.json, ~sync out"},
		"rotation": {func(dir string) error {
			err := errors.Join(os.Mkdir(StepDir(dir, 1), 0o777), os.Mkdir(StepDir(dir, 2), 0o777))
			return errors.Join(err, (&Run{dir: dir}).Rotate(1))
		}, "rename checkpoint-1 checkpoint-1.partial, sync ."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := strings.ReplaceAll(test.want, "~", "")
			if made, err := saves(t, test.do, "", 0); made != want || err != nil {
				t.Errorf("error %v, got\n%s\nwant\n%s", err, made, want)
			}
			for step := range strings.SplitSeq(test.want, ", ") {
				call, mayFail := strings.CutPrefix(step, "~")
				_, err := saves(t, test.do, call, syscall.EIO)
				if mayFail && err != nil || !mayFail && !errors.Is(err, syscall.EIO) {
					t.Errorf("if %q fails: %v", call, err)
				}
			}
		})
	}
}

// TestFoldersNeedNotReachTheDisk where the file system has no way to bring them there, which files need.
func TestFoldersNeedNotReachTheDisk(t *testing.T) {
	open := func(dir string) error {
		_, err := OpenRun(filepath.Join(dir, "out"), true)
		return err
	}
	fill := func(dir string) error {
		f, err := NewFolder(filepath.Join(dir, "out"))
		if err != nil {
			return err
		}
		return errors.Join(f.WriteFile("f", nil), f.Commit())
	}
	for _, code := range []syscall.Errno{syscall.EINVAL, syscall.ENOTSUP} {
		if _, err := saves(t, open, "sync .", code); err != nil {
			t.Error(err)
		}
		if _, err := saves(t, fill, "sync out.partial/f", code); !errors.Is(err, code) {
			t.Errorf("a file: %v, want %v", err, code)
		}
	}
}

// saves returns the calls that do makes in a folder, of which one fails. Those that remove what nobody looks at are
// left out.
func saves(t *testing.T, do func(dir string) error, failing string, with syscall.Errno) (made string, err error) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // as the system calls it
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	number := regexp.MustCompile("-[0-9a-f]{8}")
	seen := sandbox.Saves(func() { err = do(dir) }, func(call string) syscall.Errno {
		call = number.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(call, dir+"/", ""), dir, "."), "")
		if !strings.HasPrefix(call, "remove ") || call == "remove out" || call == "remove out/config.json" {
			calls = append(calls, call)
		}
		if call == failing {
			return with
		}
		return 0
	})
	if seen != nil {
		t.Skipf("cannot see system calls: %v", seen)
	}
	return strings.Join(slices.Compact(calls), ", "), err
}
