package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/seed98097648/tune/internal/os/patient"
)

// Folder is an output folder under construction. Its files are written below a
// temporary name; Commit gives it its final one. Use it like this:
//
//	f, err := checkpoint.NewFolder(path)
//	...
//	defer f.Abort() // does nothing after a commit
//	... f.WriteFile("config.json", ...), f.WriteTensors(...) ...
//	return f.Commit()
//
// Commit adds the checksums of what these two have written; see Verify.
type Folder struct {
	path string   // the final name
	dir  string   // the temporary name, empty after Commit or Abort
	last []string // names of files; not nil if the files join others at path, see Run.Finish
	own  bool     // path is to have no other files
	sums sums

	missing map[string]error // files that could not be written, and why
}

// KeptError is the error of files that could not get their place, and are whole in another.
type KeptError struct {
	Path string // where they are
	Err  error  // why
}

// Error implements error.
func (e *KeptError) Error() string { return fmt.Sprintf("%v; the model is in %s", e.Err, e.Path) }

// Unwrap returns the cause.
func (e *KeptError) Unwrap() error { return e.Err }

// NewFolder starts the folder that will become path. Parents are made as needed. It
// is an error if path exists, unless it is an empty folder. Such a one stays, since it may
// be where a file system is mounted, and the files join it at the commit.
func NewFolder(path string) (*Folder, error) {
	final, err := resolve(path) // a link to a folder stays; what it points to is the output
	if err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	if err := checkVacant(final); err != nil {
		return nil, err
	}
	f := &Folder{path: final, dir: unusedName(final), own: true}
	if isFolder(final) {
		f.dir, f.last = unusedName(filepath.Join(final, finalName)), []string{"config.json", "adapter_config.json"}
	}
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	return f, nil
}

// Path returns where to write the file of the given name until the commit.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// WriteFile writes a file of the folder, or of one in it if the name has a slash. It reaches the disk at the commit,
// which fails if the file could not be written and was not again.
func (f *Folder) WriteFile(name string, data []byte) error {
	return f.write(name, func(path string) (sum [sha256.Size]byte, err error) {
		// Somebody may have tidied up what a run of hours had begun.
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return sum, fmt.Errorf("checkpoint: %w", err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return sum, fmt.Errorf("checkpoint: %w", err)
		}
		return sha256.Sum256(data), nil
	})
}

// WriteTensors is Write of a file of the folder.
func (f *Folder) WriteTensors(name string, tensors []Named, metadata map[string]string) error {
	return f.write(name, func(path string) (sum [sha256.Size]byte, err error) {
		if err := os.MkdirAll(f.dir, 0o777); err != nil {
			return sum, fmt.Errorf("checkpoint: %w", err)
		}
		if sum, err = write(path, tensors, metadata); err != nil {
			return sum, fmt.Errorf("checkpoint: cannot write %s: %w", path, err)
		}
		return sum, nil
	})
}

// write notes the checksum of a file that is written, or that there is none.
func (f *Folder) write(name string, write func(path string) ([sha256.Size]byte, error)) error {
	sum, err := write(f.Path(name))
	if err != nil {
		if f.missing == nil {
			f.missing = map[string]error{}
		}
		f.missing[name] = err
		return err
	}
	delete(f.missing, name)
	f.sums.set(name, sum)
	return nil
}

// Commit brings all files to the disk and gives the folder its name. It removes
// nothing: if something has appeared there since NewFolder, the files get the first of the
// names path-2, path-3, ... that is free, and the error is a *KeptError. After another
// error the folder can be committed again or aborted.
func (f *Folder) Commit() error {
	if f.dir == "" {
		return fmt.Errorf("checkpoint: output folder %s was committed or aborted before", f.path)
	}
	for _, err := range f.missing {
		return err
	}
	if err := f.writeSums(); err != nil {
		return err
	}
	if err := syncTree(f.dir); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	if f.own {
		if why := occupied(f.path); why != nil {
			return f.keep(fmt.Errorf("checkpoint: output folder %s was free when it was begun: %w", f.path, why))
		}
	}
	if f.last != nil {
		return f.join()
	}
	// An empty folder is in the way of a rename on some systems. Remove refuses one
	// that is no longer empty.
	if err := patient.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return f.rename(f.path)
}

// rename gives the folder its name, or another one. What has it, and is on the disk, is
// saved: a system that cannot bring the name itself there is no reason to save it again.
func (f *Folder) rename(name string) error {
	if err := patient.Rename(f.dir, name); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	f.dir = ""
	_ = syncDir(filepath.Dir(name))
	return nil
}

// keep gives the folder another name than it was to have.
func (f *Folder) keep(why error) error {
	name, claim, err := FreeName(f.path, 2, nil)
	if err != nil {
		return errors.Join(why, err)
	}
	if err := errors.Join(f.rename(name), claim.Close()); err != nil {
		return errors.Join(why, err)
	}
	return &KeptError{name, why}
}

// FreeName returns the first of the names path, path-2, path-3, ..., beginning with the
// number first, that does not exist and nobody has claimed, with a claim to it, which the
// caller closes. It tells held, unless that is nil, of each name that only a claim takes.
func FreeName(path string, first int, held func(name string)) (string, *Claim, error) {
	for i := first; ; i++ {
		name := path
		if i > 1 {
			name = fmt.Sprintf("%s-%d", path, i)
		}
		if _, err := os.Lstat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("checkpoint: output folder: %w", err)
		}
		c, err := NewClaim(name)
		if errors.Is(err, ErrHeld) {
			if held != nil {
				held(name)
			}
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if _, err := os.Lstat(name); err == nil { // made just before the claim
			if err := c.Close(); err != nil {
				return "", nil, err
			}
			continue
		}
		return name, c, nil
	}
}

// join moves the files to the folder that is there already.
func (f *Folder) join() error {
	var first, last []string
	err := filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.dir, path)
		if slices.Contains(f.last, name) {
			last = append(last, name)
		} else {
			first = append(first, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	f.own = false // from now on the path has files of this folder, too: another commit adds the rest
	// An older model must not be taken for one while its files are replaced.
	for _, name := range last {
		if err := patient.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checkpoint: output folder: %w", err)
		}
	}
	for _, names := range [][]string{nil, first, last} {
		for _, name := range names {
			in := filepath.Dir(filepath.Join(f.path, name))
			err := os.MkdirAll(in, 0o777)
			if err == nil {
				err = patient.Rename(filepath.Join(f.dir, name), filepath.Join(f.path, name))
			}
			if err != nil {
				return fmt.Errorf("checkpoint: output folder: %w", err)
			}
			if in != f.path {
				_ = syncDir(in)
			}
		}
		_ = syncDir(f.path) // as in rename
	}
	_ = os.RemoveAll(f.dir) // without files by now, and none of what is saved
	f.dir = ""
	return nil
}

// Abort removes what was written. After a commit or another Abort it does nothing.
func (f *Folder) Abort() error {
	if f.dir == "" {
		return nil
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("checkpoint: cannot remove the unfinished output: %w", err)
	}
	f.dir = ""
	return nil
}

// What is in the way of a folder.
var (
	errIsFile   = errors.New("now it is a file")
	errNotEmpty = errors.New("now it is not empty")
)

// checkVacant accepts a path that does not exist and an empty folder, but for some names
// and what runs have not finished.
func checkVacant(path string, but ...string) error {
	switch err := occupied(path, but...); {
	case err == nil:
		return nil
	case errors.Is(err, errIsFile):
		return fmt.Errorf("checkpoint: output folder: %s is a file; choose another name for the folder", path)
	case errors.Is(err, errNotEmpty):
		return fmt.Errorf("checkpoint: output folder %s exists and is not empty; choose another folder or remove it",
			path)
	default:
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
}

// occupied returns why the path is not vacant.
func occupied(path string, but ...string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() { // of which Windows says that its entries do not exist
		return errIsFile
	}
	entries, err := os.ReadDir(path)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return Unfinished(e.Name()) || slices.Contains(but, e.Name())
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(entries) > 0:
		return errNotEmpty
	}
	return err
}

// syncTree brings every file and folder at or below dir to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return syncDir(path)
		case !d.Type().IsRegular():
			return nil
		}
		return syncFile(path)
	})
}

func syncFile(path string) error {
	flag := os.O_RDONLY // enough, and works for files without write permission
	if runtime.GOOS == "windows" {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
