package placement_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/placement"
)

var was = []core.Placement{{Path: "0.norm", Op: core.RMSNorm, Kernel: "norm"}, {Path: "1.norm", Op: core.RMSNorm}}

// keep writes a run's journal and a checkpoint's state, which say the same.
func keep(t *testing.T, m placement.Machine) (dir, checkpoint string) {
	t.Helper()
	dir = t.TempDir()
	w, err := journal.Open(filepath.Join(dir, journal.File))
	if err != nil {
		t.Fatal(err)
	}
	start := &journal.Start{Version: journal.Version, Config: json.RawMessage("{}"),
		Environment: journal.Environment{Arch: m.Arch, SIMD: m.SIMD}}
	for _, p := range was {
		start.Sites = append(start.Sites, journal.Site{Path: p.Path, Op: p.Op, Kernel: p.Kernel})
	}
	for name, sum := range m.Plugins {
		start.Plugins = append(start.Plugins, journal.Plugin{Name: name, Checksum: sum, Summaries: m.Summaries[name]})
	}
	if err := w.Record(start); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	checkpoint = filepath.Join(dir, "checkpoint-2")
	if err := os.Mkdir(checkpoint, 0o777); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(placement.Record{Kernels: was, Machine: m})
	if err == nil {
		err = os.WriteFile(filepath.Join(checkpoint, placement.StateFile), b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, checkpoint
}

func TestEveryRecordOfARunSaysTheSame(t *testing.T) {
	m := placement.Machine{Arch: "amd64", SIMD: "avx2", Plugins: map[string]string{"norm": "abc"},
		Summaries: map[string][]string{"norm": {"by OpenBLAS", "by itself"}}}
	dir, checkpoint := keep(t, m)
	for _, path := range []string{dir, filepath.Join(dir, journal.File), checkpoint,
		filepath.Join(checkpoint, placement.StateFile)} {
		r, err := placement.Read(path)
		if err != nil || !reflect.DeepEqual(r.Kernels, was) || !reflect.DeepEqual(r.Machine, m) {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	empty := t.TempDir()
	for _, path := range []string{empty, filepath.Join(empty, "nothing")} {
		if _, err := placement.Read(path); err == nil || !strings.Contains(err.Error(), "output folder") {
			t.Errorf("%s: error %v, want what to name", path, err)
		}
	}
}

// TestAKernelThatWasWrongIsNotRepeated: its sites went on plain.
func TestAKernelThatWasWrongIsNotRepeated(t *testing.T) {
	dir, _ := keep(t, placement.Machine{Plugins: map[string]string{"norm": "abc"}})
	w, err := journal.Open(filepath.Join(dir, journal.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Record(&journal.Incident{Kernel: "norm", Op: core.RMSNorm, TakenOff: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := placement.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kernels[0].Kernel != "" {
		t.Errorf("%+v, want no kernel", r.Kernels)
	}
}

// plugin offers a kernel of rms_norm that computes nothing.
type plugin struct{ name, sum string }

func (p plugin) Manifest() core.Manifest {
	return core.Manifest{Name: p.name, Checksum: p.sum, Kernels: []core.Info{p.Info()}}
}
func (p plugin) Kernels() []core.Kernel { return []core.Kernel{p} }
func (p plugin) Close() error           { return nil }
func (p plugin) Info() core.Info {
	return core.Info{Name: p.name, Op: core.RMSNorm,
		Backward: true}
}
func (p plugin) Supports(core.Facts) error                         { return nil }
func (p plugin) Forward(context.Context, *core.Call) error         { return nil }
func (p plugin) Backward(context.Context, *core.Call) error        { return nil }
func (p plugin) open(context.Context, string) (core.Plugin, error) { return p, nil }

type model []core.Site

func (m model) Sites() []core.Site { return m }

type hook struct{}

func (hook) Kernel() core.Kernel    { return nil }
func (hook) Swap(core.Kernel) error { return nil }

func plan(t *testing.T, p plugin, m placement.Machine) (*core.Plan, string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, p.name), nil, 0o777); err != nil {
		t.Fatal(err)
	}
	reg, err := core.ScanAllKernels(t.Context(), []string{dir}, p.open)
	if err != nil {
		t.Fatal(err)
	}
	var sites model
	for _, p := range was {
		sites = append(sites, core.Site{Path: p.Path, Op: p.Op, Hook: hook{}})
	}
	return (&placement.Record{Path: "run.jsonl", Kernels: was, Machine: m}).Plan(t.Context(), sites, reg)
}

func TestTheSamePluginIsPlacedAgain(t *testing.T) {
	m := placement.This(core.NewRegistry(), nil)
	m.Plugins["norm"], m.Plugins["other"] = "abc", "of no site"
	p, warning, err := plan(t, plugin{"norm", "abc"}, m)
	if err != nil || warning != "" || p.Actions[0].Kernel == nil || p.Actions[1].Kernel != nil {
		t.Errorf("%+v, warning %q, %v", p, warning, err)
	}
}

func TestAnotherProcessorIsAWarning(t *testing.T) {
	_, warning, err := plan(t, plugin{"norm", "abc"},
		placement.Machine{Arch: "arm64", SIMD: "neon", Plugins: map[string]string{"norm": "abc"}})
	if err != nil || !strings.Contains(warning, "arm64 neon -> ") {
		t.Errorf("warning %q, %v", warning, err)
	}
}

// TestAnotherLibraryIsAWarning: the plugin is the same, to the bit, and has found another one to compute with.
func TestAnotherLibraryIsAWarning(t *testing.T) {
	m := placement.This(core.NewRegistry(), nil)
	m.Plugins["norm"], m.Summaries["norm"] = "abc", []string{"by OpenBLAS"}
	_, warning, err := plan(t, plugin{"norm", "abc"}, m)
	if err != nil || !strings.Contains(warning, `the plugin norm has found ("by OpenBLAS" -> "")`) {
		t.Errorf("warning %q, %v", warning, err)
	}
	now := m
	now.Summaries = map[string][]string{"norm": {"by BLIS"}}
	if what := m.Changed(now); len(what) != 1 || !strings.Contains(what[0], `"by OpenBLAS" -> "by BLIS"`) {
		t.Errorf("changed since a checkpoint: %q", what)
	}
	m.Summaries = nil // of a version of tune that did not keep them
	if what := m.Changed(now); what != nil {
		t.Errorf("changed since a checkpoint that does not say: %q", what)
	}
}

// TestAnotherPluginIsAnErrorThatSaysWhatToDo: missing, another build, or one that was linked.
func TestAnotherPluginIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for name, tt := range map[string]struct {
		now  plugin
		was  map[string]string
		want string
	}{
		"missing": {plugin{"another", "abc"}, map[string]string{"norm": "abc"},
			`0.norm had the kernel norm, which cannot be placed now: core: unknown kernel "norm"`},
		"another build": {plugin{"norm", "def"}, map[string]string{"norm": "abc"},
			"the plugin norm is not that of the run (SHA-256 abc -> def)"},
		"linked before": {plugin{"norm", "def"}, nil, "linked into a program -> def"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plan(t, tt.now, placement.Machine{Plugins: tt.was})
			for _, want := range []string{tt.want, "put ", "trainer.Config.Kernels norm"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
}
