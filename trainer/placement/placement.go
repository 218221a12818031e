// Package placement reads which kernels an earlier run had at which sites, and plans the
// same again: what --kernels from:RUN does. auto measures, and may choose otherwise when it
// measures anew; kernels round differently from the plain forward, and so the losses of two
// runs differ. With the same seed and settings, a run that repeats another's placement has
// its losses, to the bit, as long as the program, the plugins, the libraries that these find
// and the vector instructions are the same.
package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/journal"
)

// StateFile is where a checkpoint has its placement, with all else that is no tensor.
const StateFile = "trainer_state.json"

// Record is what a run has kept of its kernels.
type Record struct {
	Path    string           `json:"-"` // the file that it was read from
	Kernels []core.Placement `json:"kernels"`
	Machine Machine          `json:"machine"`
}

// Machine is what may change the last bits of a result and is no setting.
type Machine struct {
	Arch    string            `json:"arch"`
	SIMD    string            `json:"simd"`
	Plugins map[string]string `json:"plugins,omitempty"` // SHA-256 of those in use, by name
	// Summaries has, by name, what the kernels of these say of themselves: a library that they have found, above all.
	Summaries map[string][]string `json:"summaries,omitempty"`
}

// This returns the machine, and of the plugins those that are placed.
func This(reg *core.Registry, placed []core.Placement) Machine {
	m := Machine{Arch: runtime.GOARCH, SIMD: simd.Instructions(), Plugins: map[string]string{},
		Summaries: map[string][]string{}}
	for _, name := range distinct(placed) {
		if f, ok := reg.Find(name); ok && f.Manifest.Checksum != "" {
			m.Plugins[name], m.Summaries[name] = f.Manifest.Checksum, f.Manifest.Summaries()
		}
	}
	return m
}

// Read reads the record of a run from its output folder, one of its checkpoints, or its
// journal.
func Read(path string) (*Record, error) {
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, StateFile)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			file = filepath.Join(path, journal.File)
		}
	}
	if filepath.Base(file) == StateFile {
		return readState(file)
	}
	run, err := journal.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%w; kernels are repeated from a run's output folder, one of its checkpoints, or its %s", err,
			journal.File)
	}
	s := run.Start
	r := &Record{Path: file, Machine: Machine{Arch: s.Environment.Arch, SIMD: s.Environment.SIMD,
		Plugins: map[string]string{}, Summaries: map[string][]string{}}}
	for _, site := range s.Sites {
		p := core.Placement{Path: site.Path, Op: site.Op, Kernel: site.Kernel}
		if slices.ContainsFunc(run.Incidents, func(i journal.Incident) bool {
			return i.TakenOff &&
				i.Kernel == site.Kernel
		}) {
			p.Kernel = "" // it was wrong
		}
		r.Kernels = append(r.Kernels, p)
	}
	for _, p := range s.Plugins {
		if p.Checksum != "" {
			r.Machine.Plugins[p.Name], r.Machine.Summaries[p.Name] = p.Checksum, p.Summaries
		}
	}
	return r, nil
}

func readState(file string) (*Record, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := plainjson.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r.Path = file
	return r, nil
}

// Plan is core.Repeat of the record, for plugins that are those of the run, to the bit. The
// warning, if any, says that the bits of the results may differ all the same.
func (r *Record) Plan(ctx context.Context, m core.Model, reg *core.Registry,
	opts ...core.Option) (plan *core.Plan, warning string, err error) {
	if plan, err = core.Repeat(ctx, m, reg, r.Kernels, opts...); err != nil {
		return nil, "", fmt.Errorf("%w; put back what the run had, or %s", err, r.otherwise())
	}
	used := (&core.Report{Actions: plan.Actions}).Placements() // of what the run had, perhaps not all
	now := This(reg, used)
	var errs []error
	for _, p := range distinct(used) {
		if was, is := r.Machine.Plugins[p], now.Plugins[p]; was != is {
			const linked = "none, being linked into a program"
			errs = append(errs, fmt.Errorf("the plugin %s is not that of the run (SHA-256 %s -> %s)", p, cmp.Or(was, linked),
				cmp.Or(is, linked)))
		}
	}
	if errs != nil {
		return nil, "", fmt.Errorf("%s: %w: the same bits cannot be promised; put the plugins of the run back, or %s",
			r.Path, errors.Join(errs...), r.otherwise())
	}
	return plan, strings.Join(r.Machine.around(now), " and "), nil
}

// otherwise says how to have nearly the same kernels.
func (r *Record) otherwise() string {
	names := distinct(r.Kernels)
	if names == nil {
		names = []string{"none"}
	}
	return "take these kernels without that promise, at every site that they fit: trainer.Config.Kernels " +
		strings.Join(names, ",")
}

// Changed lists what is not as it was, of what changes the last bits.
func (was Machine) Changed(now Machine) []string {
	what := was.around(now)
	for _, name := range slices.Sorted(maps.Keys(was.Plugins)) {
		if was.Plugins[name] != now.Plugins[name] {
			what = append(what, "the plugin "+name)
		}
	}
	return what
}

// around lists what is not as it was of what plugins find on the machine: its processor, and libraries.
func (was Machine) around(now Machine) []string {
	var what []string
	if p := was.processor(now); p != "" {
		what = append(what, p)
	}
	for _, name := range slices.Sorted(maps.Keys(was.Summaries)) {
		before, after := was.Summaries[name], now.Summaries[name]
		if was.Plugins[name] != now.Plugins[name] || len(before) != len(after) {
			continue // it is another plugin, or a run of a version of tune that did not keep them
		}
		for i := range before {
			if before[i] != after[i] {
				what = append(what, fmt.Sprintf("what the plugin %s has found (%q -> %q)", name, before[i], after[i]))
				break
			}
		}
	}
	return what
}

// processor names both processors if they differ.
func (was Machine) processor(now Machine) string {
	if was.Arch == now.Arch && was.SIMD == now.SIMD {
		return ""
	}
	return fmt.Sprintf("the processor (%s %s -> %s %s)", was.Arch, was.SIMD, now.Arch, now.SIMD)
}

// distinct returns the names of the kernels, sorted.
func distinct(placed []core.Placement) []string {
	var names []string
	for _, p := range placed {
		if p.Kernel != "" {
			names = append(names, p.Kernel)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
