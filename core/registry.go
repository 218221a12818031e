package core

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/nearest"
)

// Found is one line of a registry's listing: a plugin or a linked kernel that can be
// used, or a file that cannot, with its reason.
type Found struct {
	Path     string   // the executable; "(linked)" for a kernel in this program
	Manifest Manifest // zero when Err is set before the plugin said who it is
	Err      error    // why it cannot be used; nil for a usable one
}

// Registry holds the kernels that a program can place, found by ScanAllKernels or
// linked in by Register. It owns the plugins' processes until Close. A nil Registry, such as
// comes with an error, has no kernels and accepts none.
type Registry struct {
	found   []Found
	plugins []Plugin
	kernels []Kernel // sorted by name, then op
	closed  bool
}

// errClosed is of whatever would take a kernel from a closed registry, or give it one.
var errClosed = errors.New("core: the registry is closed, and its plugins have ended: scan again, or close it later")

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

const linked = "(linked)"

// Register adds a kernel that is linked into this program and runs without a process
// of its own. A name and op that are taken already give an error that wraps ErrDuplicate;
// a name that a selection cannot say gives one that wraps ErrIncompatible. Patching
// compares kernels, so k is a pointer or another comparable value.
//
// A plan takes a kernel that is no Verifier at its word. Plugins all verify themselves;
// for a linked kernel, register kerneltest.Verified(k), and a plan refuses it where it
// differs from the reference; models that run at the same time can then share it.
func (r *Registry) Register(k Kernel) error {
	if r == nil || k == nil {
		return errors.New("core: register: pass a kernel to a registry of NewRegistry, neither of them nil")
	}
	if r.closed {
		return errClosed
	}
	info := k.Info()
	if !reflect.TypeOf(k).Comparable() {
		return fmt.Errorf("core: register %s: a %T cannot be compared; register a pointer to it", info.Name, k)
	}
	m := Manifest{Name: info.Name, Version: info.Version, Path: linked, Kernels: []Info{info}}
	if err := validateManifest(m); err != nil {
		return fmt.Errorf("core: register: %w", err)
	}
	for _, have := range r.kernels {
		if i := have.Info(); i.Name == info.Name && i.Op == info.Op {
			first, _ := r.Find(info.Name)
			return fmt.Errorf("core: register %s for %s: %w: it is registered already, from %s",
				info.Name, info.Op, ErrDuplicate, first.Path)
		}
	}
	r.found = append(r.found, Found{Path: linked, Manifest: m})
	r.add(k)
	return nil
}

func (r *Registry) add(kernels ...Kernel) {
	r.kernels = append(r.kernels, kernels...)
	slices.SortStableFunc(r.kernels, func(a, b Kernel) int {
		return cmp.Or(cmp.Compare(a.Info().Name, b.Info().Name), cmp.Compare(a.Info().Op, b.Info().Op))
	})
}

// Find returns the usable plugin of that name, if there is one.
func (r *Registry) Find(name string) (f Found, ok bool) {
	if r == nil || r.closed {
		return f, false
	}
	i := slices.IndexFunc(r.found, func(f Found) bool { return f.Err == nil && f.Manifest.Name == name })
	if i < 0 {
		return f, false
	}
	return r.found[i], true
}

// Kernels returns every usable kernel, sorted by name, then op.
func (r *Registry) Kernels() []Kernel {
	if r == nil {
		return nil
	}
	return slices.Clone(r.kernels)
}

// Names returns the distinct names of the usable kernels, sorted.
func (r *Registry) Names() []string {
	var names []string
	for _, k := range r.Kernels() {
		names = append(names, k.Info().Name)
	}
	return slices.Compact(names)
}

// Lookup returns the kernels of that name, one for each op that the plugin offers.
// An unknown name gives an error that wraps ErrUnknownKernel and lists the known
// names, the nearest first; a plugin that was found but cannot be used gives its reason.
func (r *Registry) Lookup(name string) ([]Kernel, error) {
	if r != nil && r.closed {
		return nil, errClosed
	}
	var ks []Kernel
	for _, k := range r.Kernels() {
		if k.Info().Name == name {
			ks = append(ks, k)
		}
	}
	if ks != nil {
		return ks, nil
	}
	for _, f := range r.Listing() {
		if f.Err != nil && f.isCalled(name) {
			return nil, fmt.Errorf("core: kernel %q was found but cannot be used: %w", name, f.Err)
		}
	}
	names := r.Names()
	if len(names) == 0 {
		return nil, fmt.Errorf("core: %w %q: no kernels were found; build the plugins or name their folder",
			ErrUnknownKernel, name)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(nearest.Distance(name, a), nearest.Distance(name, b))
	})
	return nil, fmt.Errorf("core: %w %q; known, nearest first: %s", ErrUnknownKernel, name, strings.Join(names, ", "))
}

// CheckNames returns a name of a selection that nobody has, or that is selected and cannot be used, with the error of
// Lookup. Where it is nearly a word that is no name, such as auto, the error asks for that.
func (r *Registry) CheckNames(sel Selection) (name string, err error) {
	for _, name := range sel.Names {
		_, err := r.Lookup(name)
		if word, ok := nearest.Name(name, []string{"auto", "all", "none"}); ok && errors.Is(err, ErrUnknownKernel) {
			err = fmt.Errorf("%w; did you mean %s?", err, word)
		}
		if err != nil {
			return name, err
		}
	}
	for _, name := range sel.Not {
		// A plugin that cannot be used may well be excluded; a name that nobody has may not.
		if _, err := r.Lookup(name); errors.Is(err, ErrUnknownKernel) {
			return name, err
		}
	}
	return "", nil
}

// isCalled reports whether somebody who names a plugin means this one. One that is built in and not to be trusted, as a
// lock of others' leaves it out, is not there at all.
func (f Found) isCalled(name string) bool {
	if own, builtIn := strings.CutPrefix(f.Path, BuiltIn); builtIn {
		return own == name && !errors.Is(f.Err, ErrUntrusted)
	}
	return f.Manifest.Name == name || strings.TrimSuffix(filepath.Base(f.Path), ".exe") == name
}

// Listing returns everything that was found, usable or not, sorted by path.
func (r *Registry) Listing() []Found {
	if r == nil {
		return nil
	}
	out := slices.Clone(r.found)
	slices.SortStableFunc(out, func(a, b Found) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Close ends the plugins' processes. Kernels of plugins must not be used afterwards: restore what they were placed on
// before. A closed registry has no kernels, and plans with it are errors; Listing still says what was found.
func (r *Registry) Close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, p := range r.plugins {
		errs = append(errs, p.Close())
	}
	r.plugins, r.kernels, r.closed = nil, nil, true
	return errors.Join(errs...)
}

// Rest ends the processes of plugins that the actions do not use, which frees their memory.
// A later call of one of their kernels starts the process again; see Rester.
func (r *Registry) Rest(actions []Action) {
	if r == nil {
		return
	}
	used := map[string]bool{}
	for _, a := range actions {
		if a.Kernel != nil {
			used[a.Kernel.Info().Name] = true // the name of its plugin
		}
	}
	for _, p := range r.plugins {
		if rester, ok := p.(Rester); ok && !used[p.Manifest().Name] {
			rester.Rest()
		}
	}
}
