package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// ScanAllKernels starts every executable in the folders and asks it who it is; a file
// name is never trusted. It opens a few files at a time and lists them in sorted
// order, folder by folder. A file that cannot be used is listed with its reason and
// never stops the others; of two plugins with one name the first stays, and the second
// is ended at once and listed with an error that names both paths. Among many links to one
// file, or copies of it, only two are started: if both say that they are the same plugin, the
// others are taken for it, too. A folder that does not exist, or is named twice, is an error;
// hidden files, folders and data files are passed over.
//
// Close the registry to end the plugins.
func ScanAllKernels(ctx context.Context, dirs []string, open Opener) (*Registry, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("core: scan for kernels: there is no context: pass context.Background()")
	case open == nil:
		return nil, errors.New("core: scan for kernels: there is no opener: pass transport.Open")
	}
	var paths []string
	for i, dir := range dirs {
		switch {
		case dir == "":
			return nil, errors.New("core: scan for kernels: the name of a folder is empty; " +
				"transport.Folders(\"\") has the usual ones")
		case slices.Contains(dirs[:i], dir):
			return nil, fmt.Errorf("core: scan for kernels: the folder %s is named twice", dir)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("core: scan for kernels: %w", err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	r := NewRegistry()
	r.openAll(ctx, paths, open)
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("core: scan for kernels: %w", err), r.Close())
	}
	return r, nil
}

// BuiltIn begins the path of a plugin that is part of the running program; the plugin's name
// follows. Even such a plugin does not run in the program's own process; see AddBuiltIn.
const BuiltIn = "built-in:"

// BuiltInOpener starts the running program once more, as the plugins of these names. It returns for each of them, in their
// order, the plugin or why it cannot be used. The transport implements it: transport.OpenBuiltIn.
type BuiltInOpener func(ctx context.Context, names []string) ([]Plugin, []error)

// AddBuiltIn adds the plugins of these names that are part of the running program. A usable
// plugin of the same name that was found earlier stays, and the built-in one is left out. The others
// share a process.
func (r *Registry) AddBuiltIn(ctx context.Context, names []string, open BuiltInOpener) error {
	switch {
	case r == nil:
		return errors.New("core: built-in plugins: there is no registry to add them to: pass one of ScanAllKernels or NewRegistry")
	case r.closed:
		return errClosed
	case ctx == nil:
		return errors.New("core: built-in plugins: there is no context: pass context.Background()")
	case open == nil:
		return errors.New("core: built-in plugins: there is no opener: pass transport.OpenBuiltIn")
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, known := r.Find(name)
		return known
	})
	if len(names) > 0 {
		plugins, errs := open(ctx, names)
		for i, name := range names {
			err := errs[i]
			if err == nil && plugins[i] == nil {
				err = errNothing
			}
			if err != nil {
				r.found = append(r.found, Found{Path: BuiltIn + name, Err: err})
			} else {
				r.admit(BuiltIn+name, plugins[i])
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("core: scan for kernels: %w", err)
	}
	return nil
}

// errSkip marks what is not meant to be a plugin, such as a folder.
var errSkip = errors.New("not a plugin")

// errNothing is of an opener that does not keep its word.
var errNothing = fmt.Errorf("%w: its opener returned neither a plugin nor an error", ErrIncompatible)

const (
	// scanSlots is how many executables start at the same time: starting takes a processor.
	scanSlots = 4
	// scanAhead is how many may have started before the first of them is admitted: only then
	// is a duplicate known for one, and its process ended.
	scanAhead = 8
)

// opening is a file that is opened; done is closed when the rest is known.
type opening struct {
	path   string
	done   chan struct{}
	plugin Plugin
	err    error
}

// openAll opens files and adds what they are, in their order: each as soon as those before it
// have been added.
func (r *Registry) openAll(ctx context.Context, paths []string, open Opener) {
	all := make([]*opening, len(paths))
	for i, path := range paths {
		all[i] = &opening{path: path, done: make(chan struct{})}
	}
	slots, ahead := make(chan struct{}, scanSlots), make(chan struct{}, scanAhead)
	var wg sync.WaitGroup
	wg.Go(func() {
		var same files
		for _, o := range all {
			ahead <- struct{}{}
			if o.err = executable(o.path); o.err == nil && ctx.Err() == nil {
				o.err = same.asOthers(o)
			}
			if o.err != nil || ctx.Err() != nil {
				o.err = cmp.Or(o.err, ctx.Err())
				close(o.done)
				continue
			}
			slots <- struct{}{}
			wg.Go(func() {
				if o.plugin, o.err = open(ctx, o.path); o.plugin == nil && o.err == nil {
					o.err = errNothing
				}
				<-slots
				close(o.done)
			})
		}
	})
	for _, o := range all {
		<-o.done
		switch {
		case errors.Is(o.err, errSkip):
		case o.err != nil:
			r.found = append(r.found, Found{Path: o.path, Err: o.err})
		default:
			r.admit(o.path, o.plugin)
		}
		<-ahead
	}
	wg.Wait()
}

// executable returns nil for a file that can be started, errSkip for what is passed
// over, and otherwise the reason why not.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errSkip
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case IsExecutable(path, info.Mode()):
		return nil
	case runtime.GOOS == "windows":
		return fmt.Errorf("%s is not executable: a plugin's name ends in .exe here", path)
	}
	return fmt.Errorf("%s is not executable: chmod +x it, or move it out of the plugins folder", path)
}

// IsExecutable reports whether the system starts a regular file: by its name on Windows, by
// its mode elsewhere.
func IsExecutable(path string, mode fs.FileMode) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(filepath.Ext(path), ".exe")
	}
	return mode&0o111 != 0
}

// admit adds an opened plugin, or lists it with its reason and closes it.
func (r *Registry) admit(path string, p Plugin) {
	m := p.Manifest()
	err := validateManifest(m)
	if f, twice := r.Find(m.Name); twice && err == nil {
		err = fmt.Errorf("%w %q: %s and %s both offer it; remove one", ErrDuplicate, m.Name, f.Path, path)
	}
	r.found = append(r.found, Found{Path: path, Manifest: m, Err: err})
	if err != nil {
		p.Close() // its own complaint would only hide the reason above
		return
	}
	r.plugins = append(r.plugins, p)
	r.add(p.Kernels()...)
	if rester, ok := p.(Rester); ok && len(r.plugins) > maxAwake {
		rester.Rest()
	}
}

// maxAwake is how many plugins of a scan keep their process: a folder of hundreds is not to
// fill the memory. The others start one again when they are asked something else.
const maxAwake = 32

// CheckName reports a name that a plugin cannot have, because --kernels could not take it.
func CheckName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, " ,\t\n") || strings.HasPrefix(name, "-"):
		return errors.New("a name has no blanks or commas and no leading dash")
	case name == "auto" || name == "all" || name == "none" || strings.HasPrefix(name, from):
		return errors.New("a selection reserves it")
	}
	return nil
}

func validateManifest(m Manifest) error {
	if err := CheckName(m.Name); err != nil {
		return fmt.Errorf("%w: %s calls itself %q: %w", ErrIncompatible, m.Path, m.Name, err)
	}
	if len(m.Kernels) == 0 {
		return fmt.Errorf("%w: %s offers no kernels", ErrIncompatible, m.Path)
	}
	seen := map[Op]bool{}
	for _, k := range m.Kernels {
		// They are shown on terminals, which obey control characters.
		if strings.ContainsFunc(m.Name+m.Version+string(k.Op)+k.Summary, unicode.IsControl) {
			return fmt.Errorf("%w: %s describes itself with control characters; "+
				"a name, a version and a summary are one line of text", ErrIncompatible, m.Path)
		}
		if k.Name != m.Name {
			return fmt.Errorf("%w: plugin %s offers a kernel named %q; a plugin's kernels carry its name",
				ErrIncompatible, m.Name, k.Name)
		}
		if seen[k.Op] {
			return fmt.Errorf("%w: plugin %s offers %s twice", ErrIncompatible, m.Name, k.Op)
		}
		seen[k.Op] = true
	}
	return nil
}
