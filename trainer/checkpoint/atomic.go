package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/seed98097648/tune/internal/os/patient"
)

// WriteFileAtomic is os.WriteFile, except that path always holds either its old
// content or all of data, even after a crash. On error the old content stays, and
// nothing else is left behind. A symbolic link at path is replaced, not followed.
func WriteFileAtomic(path string, data []byte, perm fs.FileMode) error {
	err := replaceFile(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint: cannot write %s: %w", path, err)
	}
	return nil
}

// Vacant refuses a file that is there: it may be hours of somebody's work.
func Vacant(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return fmt.Errorf("%s exists: choose another name, or remove it", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// WriteNew is WriteFileAtomic of what fill writes, for a path that has nothing: what somebody else has put there by
// the end stays, and is an error, as Vacant has it.
func WriteNew(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	err := writeFile(path, perm, fill, func(tmp, path string) error { return publish(tmp, path, os.Link) })
	if err != nil {
		return fmt.Errorf("checkpoint: cannot write %s: %w", path, err)
	}
	return nil
}

// publish gives a file its name, unless something has that. A link never replaces anything, which a rename does where
// there are no links, if the other comes just after the look.
func publish(tmp, path string, link func(tmp, path string) error) error {
	if link(tmp, path) == nil {
		_ = patient.Remove(tmp) // the file has its name, and at worst another
		return nil
	}
	if err := Vacant(path); err != nil {
		return err
	}
	return patient.Rename(tmp, path)
}

// replaceFile writes path anew, as a whole.
func replaceFile(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return writeFile(path, perm, fill, patient.Rename)
}

// writeFile lets fill write a temporary file beside path, brings it to the disk and lets
// name give it the name path.
func writeFile(path string, perm fs.FileMode, fill func(io.Writer) error, name func(tmp, path string) error) error {
	tmp := unusedName(path)
	// Not os.CreateTemp: its files are private, whatever the user's umask says.
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = name(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	_ = syncDir(filepath.Dir(path)) // the file has its name: see Folder.rename
	return nil
}

// partial marks the names of what is not complete.
const partial = "partial"

// unusedName returns such a name beside path that nothing has, but for bad luck.
func unusedName(path string) string {
	return fmt.Sprintf("%s.%s-%08x", path, partial, rand.Uint32())
}

// syncDir brings the names in a folder to the disk: a rename is not durable without.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be opened for it there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a folder; then there is nothing more to do.
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
