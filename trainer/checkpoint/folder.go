package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Folder is an output folder under construction. Its files are written below a
// temporary name; Commit gives it its final one. Use it like this:
//
//	f, err := checkpoint.NewFolder(path)
//	...
//	defer f.Abort() // does nothing after a commit
//	... write to f.Path("config.json") ...
//	return f.Commit()
type Folder struct {
	path string   // the final name
	dir  string   // the temporary name, empty after Commit or Abort
	last []string // names of files; not nil if the files join others at path, see Run.Finish
}

// NewFolder starts the folder that will become path. Parents are made as needed. It
// is an error if path exists, unless it is an empty folder.
func NewFolder(path string) (*Folder, error) {
	final, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	// A link to a folder stays; what it points to is the output.
	if target, err := filepath.EvalSymlinks(final); err == nil {
		final = target
	}
	if err := checkVacant(final); err != nil {
		return nil, err
	}
	f := &Folder{path: final, dir: unusedName(final, partial)}
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

// WriteFile writes a file of the folder. It reaches the disk at the commit.
func (f *Folder) WriteFile(name string, data []byte) error {
	if err := os.WriteFile(f.Path(name), data, 0o644); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Commit brings all files to the disk and gives the folder its name. It removes
// nothing: if something has appeared there since NewFolder, that is an error. After
// an error the folder can be committed again or aborted.
func (f *Folder) Commit() error {
	if f.dir == "" {
		return fmt.Errorf("checkpoint: output folder %s was committed or aborted before", f.path)
	}
	if err := syncTree(f.dir); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	if f.last != nil {
		return f.join()
	}
	if err := checkVacant(f.path); err != nil {
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
	f.dir = ""
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return nil
}

// join moves the files to the folder that is there already.
func (f *Folder) join() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
	var first, last []string
	for _, e := range entries {
		if slices.Contains(f.last, e.Name()) {
			last = append(last, e.Name())
		} else {
			first = append(first, e.Name())
		}
	}
	// An older model must not be taken for one while its files are replaced.
	for _, name := range last {
		if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checkpoint: output folder: %w", err)
		}
	}
	for _, names := range [][]string{nil, first, last} {
		for _, name := range names {
			if err := os.Rename(filepath.Join(f.dir, name), filepath.Join(f.path, name)); err != nil {
				return fmt.Errorf("checkpoint: output folder: %w", err)
			}
		}
		if err := syncDir(f.path); err != nil {
			return fmt.Errorf("checkpoint: output folder: %w", err)
		}
	}
	if err := os.Remove(f.dir); err != nil {
		return fmt.Errorf("checkpoint: output folder: %w", err)
	}
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

// checkVacant accepts a path that does not exist and an empty folder, but for some names.
func checkVacant(path string, but ...string) error {
	entries, err := os.ReadDir(path)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(but, e.Name()) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("checkpoint: output folder: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("checkpoint: output folder %s exists and is not empty; choose another folder or remove it", path)
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
