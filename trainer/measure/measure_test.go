package measure_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/nn"
)

// sleeper is a kernel that computes nothing, in a known time.
type sleeper struct {
	name   string
	op     core.Op // attention if empty
	takes  time.Duration
	fail   error
	hook   func() // at every call
	see    func(*core.Call)
	health core.Health
	calls  int
	rests  int // of its plugin
}

func (k *sleeper) Info() core.Info {
	return core.Info{Name: k.name, Op: cmp.Or(k.op, core.Attention), Backward: true}
}
func (k *sleeper) Supports(core.Facts) error { return nil }
func (k *sleeper) Health() core.Health       { return k.health }
func (k *sleeper) Backward(ctx context.Context, c *core.Call) error {
	return k.Forward(ctx, c)
}
func (k *sleeper) Forward(_ context.Context, c *core.Call) error {
	k.calls++
	if k.see != nil {
		k.see(c)
	}
	time.Sleep(k.takes)
	if k.hook != nil {
		k.hook()
	}
	if k.fail != nil {
		k.health = core.Health{Deaths: 1, LastError: k.fail.Error()}
	}
	return nil
}

// plugin is one that a test's opener has found: its kernel, under a checksum.
type plugin struct{ kernel *sleeper }

func (p plugin) Manifest() core.Manifest {
	return core.Manifest{Name: p.kernel.name, Checksum: "sum of " + p.kernel.name, Kernels: []core.Info{p.kernel.Info()}}
}
func (p plugin) Kernels() []core.Kernel { return []core.Kernel{p.kernel} }
func (p plugin) Close() error           { return nil }
func (p plugin) Rest()                  { p.kernel.rests++ }

// scan returns a registry with the kernel, as if it were a plugin's.
func scan(t *testing.T, k *sleeper) *core.Registry {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, k.name+".exe"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	reg, err := core.ScanAllKernels(t.Context(), []string{dir},
		func(context.Context, string) (core.Plugin, error) { return plugin{k}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// model has two sites with the same facts. Its plain forward takes a hundred times as long as what a measurement puts
// beside it, a pass over its inputs: no machine is so busy that these few microseconds decide.
func model(t *testing.T) core.Model {
	t.Helper()
	b := nn.NewBuilder(autograd.Heap{})
	cfg := nn.AttentionConfig{Hidden: 8, Heads: 8, KVHeads: 1, HeadDim: 16}
	nn.NewAttention(b, "0", "layers.0.attn", cfg)
	nn.NewAttention(b, "1", "layers.1.attn", cfg)
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	body := b.Body()
	return attention{&body}
}

// attention is a model without its sites of other ops.
type attention struct{ *nn.Body }

func (a attention) Sites() []core.Site {
	return slices.DeleteFunc(slices.Clone(a.Body.Sites()), func(s core.Site) bool { return s.Op != core.Attention })
}

var run = measure.Run{Memory: autograd.Heap{}, Batch: 1, Seq: 1024}

func plan(t *testing.T, k *sleeper, selection string, o measure.Options) (*core.Plan, string) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p, err := measure.Plan(t.Context(), model(t), scan(t, k), selection, run, o)
	if err != nil {
		t.Fatal(err)
	}
	return p, log.String()
}

// The fakes are slower and faster than the plain forward by more than a busy machine could be.
func TestAutoTakesTheKernelThatIsFaster(t *testing.T) {
	for _, tt := range []struct {
		kernel sleeper
		placed bool
	}{
		{sleeper{name: "fast"}, true},
		{sleeper{name: "slow", takes: 200 * time.Millisecond}, false},
	} {
		t.Run(tt.kernel.name, func(t *testing.T) {
			p, log := plan(t, &tt.kernel, "auto", measure.Options{CacheDir: "off"})
			for _, a := range p.Actions {
				if placed := a.Kernel != nil; placed != tt.placed || a.Measured == nil {
					t.Errorf("%s: placed %v, %q, measured %+v", a.Site.Path, placed, a.Reason, a.Measured)
				}
			}
			if m := p.Actions[0].Measured; m.Tokens != 1024 || m.PlainBytes <= m.KernelBytes || m.Cached {
				t.Errorf("measured %+v; want 1024 tokens, and that the plain forward takes more memory", m)
			}
			if *p.Actions[0].Measured != *p.Actions[1].Measured || !strings.Contains(log, "uses=1 ") {
				t.Errorf("sites with the same facts were not measured once: %s", log)
			}
		})
	}
}

func TestNothingIsMeasuredUnlessAutoChooses(t *testing.T) {
	for _, selection := range []string{"all", "k", "none", "auto,k", "auto,-k"} {
		k := &sleeper{name: "k"}
		p, log := plan(t, k, selection, measure.Options{CacheDir: "off"})
		if k.calls != 0 || log != "" || p.Actions[0].Measured != nil {
			t.Errorf("%s: %d calls, %q", selection, k.calls, log)
		}
	}
}

func TestMeasurementsAreRememberedOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	k := &sleeper{name: "k"}
	first, _ := plan(t, k, "auto", measure.Options{CacheDir: dir})
	calls := k.calls
	second, log := plan(t, k, "auto", measure.Options{CacheDir: dir})
	want := *first.Actions[0].Measured
	want.Cached = true
	if k.calls != calls || log != "" || *second.Actions[0].Measured != want {
		t.Errorf("%d more calls, %q, measured %+v, want %+v", k.calls-calls, log, *second.Actions[0].Measured, want)
	}
	again, _ := plan(t, k, "auto", measure.Options{CacheDir: dir, Again: true})
	if k.calls == calls || again.Actions[0].Measured.Cached {
		t.Error("not measured again")
	}
	calls = k.calls
	other := run
	other.Batch, other.Seq = run.Seq, run.Batch
	if _, err := measure.Plan(t.Context(), model(t), scan(t, k), "auto", other,
		measure.Options{CacheDir: dir}); err != nil || k.calls == calls {
		t.Errorf("%v, another batch was not measured on its own", err)
	}
}

func TestLinkedKernelsAreMeasuredInEveryRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	k := &sleeper{name: "k"}
	reg := core.NewRegistry()
	if err := reg.Register(k); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.calls = 0
		if _, err := measure.Plan(t.Context(), model(t), reg, "auto", run, measure.Options{CacheDir: dir}); err != nil ||
			k.calls == 0 {
			t.Errorf("%v, %d calls", err, k.calls)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("remembered a kernel that no checksum identifies")
	}
}

func TestAPluginThatDiesLeavesTheSiteAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	k := &sleeper{name: "k", fail: errors.New("signal: killed")}
	p, _ := plan(t, k, "auto", measure.Options{CacheDir: dir})
	for _, a := range p.Actions {
		if a.Kernel != nil || !strings.Contains(a.Reason, "not measured: its plugin failed: signal: killed") {
			t.Errorf("%s: kernel %v, reason %q", a.Site.Path, a.Kernel, a.Reason)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(entries) > 0 {
		t.Errorf("a failure was remembered: %q, %v", entries, err)
	}
}

func TestTheEndOfTheContextEndsThePlan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k := &sleeper{name: "k", hook: cancel}
	for _, calls := range []int{1, 0} { // in the middle of measuring, and before
		k.calls = 0
		_, err := measure.Plan(ctx, model(t), scan(t, k), "auto", run, measure.Options{CacheDir: "off"})
		if !errors.Is(err, context.Canceled) || k.calls != calls {
			t.Errorf("error %v after %d calls, want context.Canceled after %d", err, k.calls, calls)
		}
	}
}

func TestTheEndOfADeadlineEndsThePlan(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	k := &sleeper{name: "k", hook: func() { <-ctx.Done() }}
	if _, err := measure.Plan(ctx, model(t), scan(t, k), "auto", run, measure.Options{CacheDir: "off"}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
}

func TestPluginsRestUnlessAPlanPlacesThem(t *testing.T) {
	k := &sleeper{name: "k"}
	all, _ := plan(t, k, "all", measure.Options{})
	if k.rests != 0 {
		t.Error("a plugin that is placed rests")
	}
	if plan(t, k, "none", measure.Options{Placed: all.Actions}); k.rests != 0 {
		t.Error("a plugin that another plan has placed rests")
	}
	if plan(t, k, "none", measure.Options{}); k.rests != 1 {
		t.Errorf("a plugin that nobody has placed rests %d times, want once", k.rests)
	}
}

// TestAProcessThatWasMeasuredStartsAgain: it has grown by what was measured. One that another plan uses does not.
func TestAProcessThatWasMeasuredStartsAgain(t *testing.T) {
	k := &sleeper{name: "k"}
	o := measure.Options{CacheDir: t.TempDir()}
	p, _ := plan(t, k, "auto", o)
	if p.Actions[0].Kernel == nil || k.rests != 1 {
		t.Errorf("it rested %d times, want once", k.rests)
	}
	if plan(t, k, "auto", o); k.rests != 1 {
		t.Errorf("it rested although nothing was measured")
	}
	o.Placed, o.Again = p.Actions, true
	if plan(t, k, "auto", o); k.rests != 1 {
		t.Error("it rested although another plan uses it")
	}
}

// TestWhatIsKeptTakesNoRoomOfTheNext: kernels of one process keep packed weights in the same room.
func TestWhatIsKeptTakesNoRoomOfTheNext(t *testing.T) {
	k := &sleeper{name: "k", op: core.RMSNorm}
	measured := measure.New(scan(t, k), run, measure.Options{CacheDir: "off"})
	b := nn.NewBuilder(autograd.Heap{})
	nn.NewRMSNorm(b, "norm", "norm", 24, 1e-6)
	body := b.Body()
	for _, frozen := range []bool{false, true} {
		site := body.Sites()[0]
		site.Facts.Frozen = frozen
		before := k.rests
		if _, err := measured(t.Context(), site, k); err != nil {
			t.Fatal(err)
		}
		if rested := k.rests > before; rested != frozen {
			t.Errorf("frozen %v: its process started again: %v", frozen, rested)
		}
	}
}

// TestWhatIsMeasuredLeavesNoPages in the memory of the run: they would stay in use beside those of the run.
func TestWhatIsMeasuredLeavesNoPages(t *testing.T) {
	pool := shm.NewPool("run", 0, shm.HostOnly, shm.New)
	defer pool.Close()
	used := int64(0)
	var region *shm.Region // of the inputs
	k := &sleeper{name: "k", hook: func() { used = max(used, pool.InUse()) }}
	k.see = func(c *core.Call) { region, _, _ = shm.Locate(c.In[0].Data) }
	r := run
	r.Memory = pool
	_, err := measure.Plan(t.Context(), model(t), scan(t, k), "auto", r, measure.Options{CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	if used > 0 || k.calls == 0 {
		t.Errorf("%d bytes were in use there in one of %d calls", used, k.calls)
	}
	if region == nil || !region.Closed() {
		t.Error("the memory of what was measured is still there")
	}
}

func TestACacheThatCannotBeWrittenIsSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p, log := plan(t, &sleeper{name: "k"}, "auto", measure.Options{CacheDir: filepath.Join(file, "below")})
	if p.Actions[0].Kernel == nil || !strings.Contains(log, "cannot be remembered") {
		t.Errorf("kernel %v, reason %q, log %q", p.Actions[0].Kernel, p.Actions[0].Reason, log)
	}
}
