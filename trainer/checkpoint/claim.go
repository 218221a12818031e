package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Claim is the right of this process to write an output folder, from before the first step
// of a run until its model is saved. It is a file beside the folder, .NAME.tune-claim, that
// is locked: the lock ends with the process, however that ends, and a file that is left
// without a lock is nobody's. Where there are no locks, as on some network file systems,
// the file itself counts, until the process that it names is gone.
type Claim struct {
	path string
	file *os.File // nil where the file system has no locks
	name string   // of that file
	made []string // folders above path that were not there, the outermost first
}

// claimFile is the end of a claim's name. It lies beside the folder, or within where
// nothing can be made beside it.
const claimFile = ".tune-claim"

// ErrHeld is what the error of a folder wraps that another process has claimed.
var ErrHeld = errors.New("another run is writing to it")

// anothers is the error of a claim that cannot be opened. It counts as held.
type anothers struct{ error }

func (a anothers) Is(err error) bool { return err == ErrHeld }
func (a anothers) Unwrap() error     { return a.error }

var (
	errLocked  = errors.New("locked")
	errNoLocks = errors.New("no locks") // of the file system, or the operating system
)

// holder says who has claimed a folder.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// NewClaim claims the folder at path, which need not exist; parents are made as needed. If
// another process has it, the error wraps ErrHeld and names that process. The caller
// closes the claim.
func NewClaim(path string) (*Claim, error) { return newClaim(path, lockFile) }

func newClaim(path string, lock func(*os.File) error) (*Claim, error) {
	final, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	c := &Claim{path: path}
	if err := c.makeParents(filepath.Dir(final)); err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	beside := filepath.Join(filepath.Dir(final), "."+filepath.Base(final)+claimFile)
	err = c.take(beside, lock)
	// A file that is there and cannot be opened or locked may be another user's claim.
	_, there := os.Lstat(beside)
	if err != nil && !errors.Is(err, ErrHeld) && errors.Is(there, fs.ErrNotExist) && isFolder(final) {
		err = c.take(filepath.Join(final, claimFile), lock)
	}
	if err != nil {
		c.removeParents()
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", path, err)
	}
	return c, nil
}

// take makes the file and locks it.
func (c *Claim) take(name string, lock func(*os.File) error) error {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		isNew := err == nil
		if errors.Is(err, fs.ErrExist) {
			// What a link leads to would be written over.
			if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
				return fmt.Errorf("%s is not a regular file, as claims are: remove it, or choose another folder", name)
			}
			f, err = os.OpenFile(name, os.O_RDWR, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has just been removed
			}
			if errors.Is(err, fs.ErrPermission) {
				return anothers{fmt.Errorf("%w: it may be the claim of another user's run: choose another folder, or, if that "+
					"has ended, have the file removed", err)}
			}
		}
		if err != nil {
			return err
		}
		err = lock(f)
		switch {
		case errors.Is(err, errLocked):
			err := heldBy(f, "")
			return errors.Join(err, f.Close())
		case errors.Is(err, errNoLocks):
			return errors.Join(c.takeByName(name, f, isNew), f.Close())
		case err != nil:
			return errors.Join(err, f.Close())
		}
		// The process that had it may have removed it since it was opened here.
		if opened, err1 := f.Stat(); err1 == nil {
			if named, err2 := os.Lstat(name); err2 == nil && os.SameFile(opened, named) {
				c.file, c.name = f, name
				if err := c.sign(f); err != nil {
					c.file, c.name = nil, ""
					return errors.Join(err, removeClaim(name, f))
				}
				return nil
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
}

// takeByName claims by the file's content, where there are no locks. Who has made the file
// has the claim; who has not gets it from a process that is gone.
func (c *Claim) takeByName(name string, f *os.File, isNew bool) error {
	if h, ok := readHolder(f); !isNew && !(ok && h.gone()) {
		return heldBy(f, fmt.Sprintf("; if it has ended, remove %s", name))
	}
	if err := c.sign(f); err != nil {
		return errors.Join(err, os.Remove(name)) // it would be taken for somebody's
	}
	c.name = name
	return nil
}

// sign writes who holds the claim. A disk that is full keeps no claim from being one.
func (c *Claim) sign(f *os.File) error {
	host, _ := os.Hostname() // for people, and no less a claim without
	text, err := json.Marshal(holder{os.Getpid(), host, time.Now().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(text, '\n'), 0); err != nil && c.file == nil {
		return err
	}
	return nil
}

func readHolder(f *os.File) (h holder, ok bool) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<12))
	return h, err == nil && json.Unmarshal(text, &h) == nil && h.PID > 0
}

// gone reports whether the process is known to have ended.
func (h holder) gone() bool {
	host, err := os.Hostname()
	return err == nil && h.Host == host && !alive(h.PID)
}

// heldBy is the error of a claim that another process has.
func heldBy(f *os.File, remedy string) error {
	who := ""
	if h, ok := readHolder(f); ok {
		who = fmt.Sprintf(" (process %d on %s, since %s)", h.PID, cmp.Or(h.Host, "an unknown machine"),
			h.Since.Local().Format(time.DateTime))
	}
	return fmt.Errorf("%w%s: wait until that has ended, or choose another folder%s", ErrHeld, who, remedy)
}

// Close gives the folder free, and removes what NewClaim has made and nobody uses. A
// second Close does nothing.
func (c *Claim) Close() error {
	if c.name == "" {
		return nil
	}
	err := removeClaim(c.name, c.file)
	c.name, c.file = "", nil
	c.removeParents()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: output folder %s: give it free: %w", c.path, err)
	}
	return nil
}

func (c *Claim) makeParents(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		c.made = append(c.made, d)
	}
	slices.Reverse(c.made)
	return os.MkdirAll(dir, 0o777)
}

// removeParents removes what makeParents has made, as far as it is empty.
func (c *Claim) removeParents() {
	for _, dir := range slices.Backward(c.made) {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// resolve returns where a path leads: absolute, and through links, of which the last may
// point to what does not exist yet.
func resolve(path string) (string, error) {
	final, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 40 { // as many links as Linux follows
		if target, err := filepath.EvalSymlinks(final); err == nil {
			return target, nil
		}
		target, err := os.Readlink(final)
		if err != nil {
			break // not a link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(final), target)
		}
		final = target
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(final)); err == nil {
		final = filepath.Join(parent, filepath.Base(final))
	}
	return final, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
