package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// markerName is a file in every folder made here. Only a folder that has it may be
// replaced, so that a mistyped path never costs a user's own files.
const markerName = ".tune-output"

const markerText = "This folder was written by tune and may be replaced by it as a whole.\n"

// Folder is an output folder under construction. Its files are written below a
// temporary name; Commit or CommitReplacing gives it its final one. Use it like this:
//
//	f, err := checkpoint.NewFolder(path)
//	...
//	defer f.Abort() // does nothing after a commit
//	... write to f.Path("config.json") ...
//	return f.Commit()
type Folder struct {
	path string // the final name
	dir  string // the temporary name beside it, empty after Commit or Abort
}

// NewFolder starts the folder that will become path. Parents are made as needed. It
// is an error if path exists, unless it is an empty folder.
func NewFolder(path string) (*Folder, error) { return newFolder(path, checkVacant) }

// NewReplacement is NewFolder for CommitReplacing: path may also be a folder made by
// this package.
func NewReplacement(path string) (*Folder, error) { return newFolder(path, checkReplaceable) }

func newFolder(path string, check func(string) error) (*Folder, error) {
	final, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	// A link to a folder stays; what it points to is the output.
	if target, err := filepath.EvalSymlinks(final); err == nil {
		final = target
	}
	if err := check(final); err != nil {
		return nil, err
	}
	f := &Folder{path: final, dir: unusedName(final, "partial")}
	if err := os.MkdirAll(filepath.Dir(final), 0o777); err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	if err := os.Mkdir(f.dir, 0o777); err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	return f, nil
}

// Path returns where to write the file of the given name until the commit.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// Commit brings all files to the disk and gives the folder its name. It removes
// nothing: if something has appeared there since NewFolder, that is an error. After
// an error the folder can be committed again or aborted.
func (f *Folder) Commit() error {
	if err := f.seal(checkVacant); err != nil {
		return err
	}
	// An empty folder is in the way of a rename on some systems. Remove refuses one
	// that is no longer empty.
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	if err := os.Rename(f.dir, f.path); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return f.done()
}

// CommitReplacing is Commit, except that it may take the place of a folder made by
// this package. The old folder is moved aside, and back again if the new one cannot
// take its name; it is removed last. A crash between the two renames leaves both
// complete, with names that start with the folder's own.
func (f *Folder) CommitReplacing() error {
	if err := f.seal(checkReplaceable); err != nil {
		return err
	}
	aside := unusedName(f.path, "old")
	if err := swap(f.dir, f.path, aside); err != nil {
		return fmt.Errorf("checkpoint: replace output folder: %w", err)
	}
	if err := f.done(); err != nil {
		return err
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("checkpoint: %s is complete, but its predecessor is left over: %w", f.path, err)
	}
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

// seal makes the folder ready for its name: marked, complete on disk, and the name
// still free to take.
func (f *Folder) seal(check func(string) error) error {
	if f.dir == "" {
		return fmt.Errorf("checkpoint: output folder %s was committed or aborted before", f.path)
	}
	if err := os.WriteFile(f.Path(markerName), []byte(markerText), 0o644); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	if err := syncTree(f.dir); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return check(f.path)
}

// done records that the folder has its name.
func (f *Folder) done() error {
	f.dir = ""
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return nil
}

// swap renames path, if it exists, to aside and then dir to path. If the second step
// fails it undoes the first.
func swap(dir, path, aside string) error {
	err := os.Rename(path, aside)
	moved := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err = os.Rename(dir, path); err != nil && moved {
		err = errors.Join(err, os.Rename(aside, path))
	}
	return err
}

// checkVacant accepts a path that does not exist and an empty folder.
func checkVacant(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("checkpoint: output folder: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("checkpoint: output folder %s exists and is not empty; "+
			"choose another one, remove it, or ask for it to be replaced", path)
	}
	return nil
}

// checkReplaceable accepts what checkVacant does, and folders with our marker.
func checkReplaceable(path string) error {
	if _, err := os.Stat(filepath.Join(path, markerName)); err == nil {
		return nil
	}
	if err := checkVacant(path); err != nil {
		return fmt.Errorf("%w (only a folder that holds %s is replaced)", err, markerName)
	}
	return nil
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
