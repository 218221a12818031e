package trust

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/patient"
)

// DefaultFile is the name of the lock file in the working directory, which counts if no
// other is named.
const DefaultFile = "tune-kernels.lock"

// FileEnv is the environment variable that names another lock file.
const FileEnv = "TUNE_KERNELS_LOCK"

// Entry is one plugin of a lock.
type Entry struct {
	Name    string `json:"name"`    // what the plugin calls itself
	Version string `json:"version"` // as the plugin says
	SHA256  string `json:"sha256"`  // of the executable, hexadecimal
	// Path is where the executable was, with slashes; relative to the lock's folder if it
	// is below it.
	Path string `json:"path"`
}

// String names the plugin for people: not its path, which mostly ends in its name.
func (e Entry) String() string { return fmt.Sprintf("%s %s %s", e.Name, e.Version, e.short()) }

func (e Entry) short() string { return Short(e.SHA256) }

// Short returns the beginning of a checksum, enough for people to tell two apart.
func Short(sum string) string { return sum[:min(len(sum), 12)] }

// Lock lists the plugins that may be started. What counts is the checksum: an executable
// that is listed may lie anywhere. Names, versions and paths are for people and for the
// reason why another one is refused.
type Lock struct {
	File    string  // where it is kept
	Entries []Entry // sorted by name, path and checksum

	// Flags are what a command line has to find it and its plugins, with a blank before each: for messages.
	Flags string
}

// Locate returns the path of the lock file that counts and whether somebody named it:
// the explicit one, else the one of FileEnv, else DefaultFile in the working directory.
func Locate(explicit string) (path string, named bool) {
	path = cmp.Or(explicit, os.Getenv(FileEnv))
	return cmp.Or(path, DefaultFile), path != ""
}

// Off, in place of a file, stands for no lock.
const Off = "off"

// Find reads the lock that counts; see Locate. Without one, or if it is Off, it returns
// nil; that somebody named one that is not there is an error.
func Find(explicit string) (*Lock, error) {
	path, named := Locate(explicit)
	if path == Off {
		return nil, nil
	}
	l, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	return l, err
}

// Read reads a lock file. Errors name the file, the line and the remedy; one that wraps
// fs.ErrNotExist says that there is none.
func Read(path string) (*Lock, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("trust: lock file %s: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("trust: lock file: %w", err)
	}
	entries, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("trust: %s: %w", path, err)
	}
	return &Lock{File: path, Entries: entries}, nil
}

// New returns a lock of opened plugins that is to be kept in a file.
func New(file string, plugins []core.Manifest) (*Lock, error) {
	l := &Lock{File: file}
	for _, m := range plugins {
		path, err := l.relative(m.Path)
		if err != nil {
			return nil, err
		}
		l.Entries = append(l.Entries, Entry{Name: m.Name, Version: m.Version, SHA256: m.Checksum, Path: path})
	}
	sortEntries(l.Entries)
	return l, nil
}

// Write keeps the lock in its file. Whoever reads the file sees the old lock or the new
// one, never a part.
func (l *Lock) Write() error {
	if err := l.write(); err != nil {
		return fmt.Errorf("trust: write lock file %s: %w", l.File, err)
	}
	return nil
}

func (l *Lock) write() error {
	f, err := os.CreateTemp(filepath.Dir(l.File), ".tune-kernels-*.lock")
	if err != nil {
		return err
	}
	// It is for everybody to read, as CreateTemp's files are not.
	_, err = f.Write(Format(l.Entries))
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = patient.Rename(f.Name(), l.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Allow returns nil if an executable with this checksum may be started. Otherwise the
// error wraps core.ErrUntrusted and says what was locked and what is there.
func (l *Lock) Allow(path, sum string) error {
	if slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.SHA256 == sum }) {
		return nil
	}
	remedy := fmt.Sprintf("if you trust it, run \"tune kernels lock --update-lock%s\"", l.flag())
	e, ok := l.at(path)
	if !ok {
		return fmt.Errorf("%w: %s (sha256 %s) is not in %s; %s", core.ErrUntrusted, path, Short(sum), l.File, remedy)
	}
	return fmt.Errorf("%w: %s has changed: %s locks %s %s with sha256 %s, the file has %s; %s",
		core.ErrUntrusted, path, l.File, e.Name, e.Version, e.short(), Short(sum), remedy)
}

// AllowName returns nil if a plugin that was allowed calls itself what it did when it was
// locked.
func (l *Lock) AllowName(path, sum, name string) error {
	var names []string
	for _, e := range l.Entries {
		if e.SHA256 == sum {
			names = append(names, e.Name)
		}
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("%w: %s calls itself %q, but %s locks it as %s; ask its author why", core.ErrUntrusted, path, name,
		l.File, strings.Join(names, ", "))
}

// Named returns the entry of a plugin by its name.
func (l *Lock) Named(name string) (Entry, bool) {
	return l.first(func(e Entry) bool { return e.Name == name })
}

// flag is how a command line names this lock, and the plugins that it is for.
func (l *Lock) flag() string {
	if l.Flags != "" || l.File == DefaultFile {
		return l.Flags
	}
	return " --lock " + l.File
}

// at returns the entry of a path, or of the same file name elsewhere.
func (l *Lock) at(path string) (Entry, bool) {
	if rel, err := l.relative(path); err == nil {
		if e, ok := l.first(func(e Entry) bool { return e.Path == rel }); ok {
			return e, true
		}
	}
	base := filepath.Base(path)
	return l.first(func(e Entry) bool { return e.Path[strings.LastIndexByte(e.Path, '/')+1:] == base })
}

func (l *Lock) first(is func(Entry) bool) (Entry, bool) {
	if i := slices.IndexFunc(l.Entries, is); i >= 0 {
		return l.Entries[i], true
	}
	return Entry{}, false
}

// relative returns a path as an entry has it.
func (l *Lock) relative(path string) (string, error) {
	if strings.HasPrefix(path, core.BuiltIn) {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("trust: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(l.File))
	if err != nil {
		return "", fmt.Errorf("trust: %w", err)
	}
	if rel, err := filepath.Rel(dir, abs); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel), nil
	}
	return filepath.ToSlash(abs), nil
}

func sortEntries(all []Entry) {
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path), cmp.Compare(a.SHA256, b.SHA256))
	})
}

// Change is a plugin that two locks differ in. Old or New is nil if only the other has it.
type Change struct {
	Old *Entry `json:"old,omitempty"`
	New *Entry `json:"new,omitempty"`
}

// Changes returns what a new list of plugins adds to an old one, removes and changes, in
// the order of their names. Plugins are the same if name and path are; of the others,
// those with one name are.
func Changes(old, now []Entry) []Change {
	var changes []Change
	left := slices.Clone(old)
	take := func(is func(Entry) bool) *Entry {
		i := slices.IndexFunc(left, is)
		if i < 0 {
			return nil
		}
		e := left[i]
		left = slices.Delete(left, i, i+1)
		return &e
	}
	var unpaired []Entry
	for _, n := range now {
		o := take(func(e Entry) bool { return e.Name == n.Name && e.Path == n.Path })
		switch {
		case o == nil:
			unpaired = append(unpaired, n)
		case *o != n:
			changes = append(changes, Change{o, &n})
		}
	}
	for _, n := range unpaired { // moved, or new
		changes = append(changes, Change{take(func(e Entry) bool { return e.Name == n.Name }), &n})
	}
	for _, o := range left {
		changes = append(changes, Change{Old: &o})
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Name(), b.Name()) })
	return changes
}

// Name returns the name of the plugin.
func (c Change) Name() string {
	if c.New != nil {
		return c.New.Name
	}
	return c.Old.Name
}

// String says in a line what has changed.
func (c Change) String() string {
	switch o, n := c.Old, c.New; {
	case o == nil:
		return "added    " + n.String()
	case n == nil:
		return "removed  " + o.String()
	case o.SHA256 == n.SHA256 && o.Version == n.Version:
		return fmt.Sprintf("moved    %s, from %s to %s", n, o.Path, n.Path)
	case o.Version == n.Version:
		return fmt.Sprintf("changed  %s -> %s", o, n.short())
	default:
		return fmt.Sprintf("changed  %s -> %s %s", o, n.Version, n.short())
	}
}
