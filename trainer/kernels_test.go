package trainer_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/models"
)

func TestSameSeedGivesTheSameBits(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	sameBits(t, newRun(t, mem, nil).steps(6), newRun(t, mem, nil).steps(6))
	sameBits(t, newRun(t, mem, all(t, reg)).steps(6), newRun(t, mem, all(t, reg)).steps(6))
}

func TestRestoreGivesTheSameBitsAsNeverApplied(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	restored := newRun(t, mem, func(m *models.Model) {
		report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all")
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Restore(); err != nil {
			t.Fatal(err)
		}
	})
	sameBits(t, restored.steps(6), newRun(t, mem, nil).steps(6))
}

// TestPlainAndFusedTrainAlike runs 32 steps each way, over both transports. The limits
// are what 32 steps of Adam make of float32 rounding: Adam divides a gradient by its own
// size, so an element whose gradient is all rounding still moves by the learning rate.
func TestPlainAndFusedTrainAlike(t *testing.T) {
	mem := plugintest.Memory(t)
	plain := newRun(t, mem, nil).steps(32)
	for name, opts := range map[string]transport.Options{"doorbell": {}, "portable": {Portable: true}} {
		t.Run(name, func(t *testing.T) {
			reg := plugintest.Scan(t, opts)
			fused := newRun(t, mem, all(t, reg)).steps(32)
			for i, want := range plain.losses {
				if d := math.Abs(fused.losses[i] - want); !(d < 1e-5) {
					t.Errorf("step %d: loss %g, plain %g", i+1, fused.losses[i], want)
				}
			}
			worst := 0.0
			want := plain.parameters()
			for i, p := range fused.parameters() {
				for j := range p {
					worst = max(worst, math.Abs(float64(p[j]-want[i][j])))
				}
			}
			if !(worst < 1e-4) {
				t.Errorf("a parameter differs by %g after 32 steps", worst)
			}
			t.Logf("largest difference of a parameter: %.2g", worst)
			if first, last := fused.losses[0], fused.losses[31]; !(last < 0.9*first) {
				t.Errorf("the loss went from %g to %g", first, last)
			}
		})
	}
}

// TestCheckpointingGivesTheSameBits calls the plugins' forward in the backward pass, too,
// on memory that they share.
func TestCheckpointingGivesTheSameBits(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	again := func(c *trainer.EngineConfig) { c.GradientCheckpointing = true }
	some := func(c *trainer.EngineConfig) {
		c.GradientCheckpointing, c.CheckpointParts = true, []string{"layers.1", "layers.0.mlp"}
	}
	for _, patch := range []func(*models.Model){nil, all(t, reg)} {
		want := newRun(t, mem, patch).steps(6)
		sameBits(t, newRun(t, mem, patch, again).steps(6), want)
		sameBits(t, newRun(t, mem, patch, some).steps(6), want)
		sameBits(t, newRun(t, mem, patch, some, unclipped, atOnce).steps(6), newRun(t, mem, patch, unclipped).steps(6))
	}
	for _, k := range reg.Kernels() {
		if h := k.(core.HealthReporter).Health(); h.Copies != 0 {
			t.Errorf("%s: %d tensors were copied", k.Info().Name, h.Copies)
		}
	}
}

func TestNothingIsCopied(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	newRun(t, mem, placed(t, reg)).steps(2)
	newRun(t, mem, all(t, reg)).steps(3)
	for _, k := range reg.Kernels() {
		called := k.Info().Backward // the others are for inference
		if h := k.(core.HealthReporter).Health(); h.Calls > 0 != called || h.Copies != 0 {
			t.Errorf("%s: %+v; want calls and no copies", k.Info().Name, h)
		}
	}
}

// TestWritingOutsideKillsThePluginAndNotTheRun lets a plugin write into a tensor of the
// host in the middle of a run.
func TestWritingOutsideKillsThePluginAndNotTheRun(t *testing.T) {
	dir := t.TempDir()
	plugintest.Compile(t, dir, "./trainer/testdata/vandal")
	flag := filepath.Join(t.TempDir(), "go")
	t.Setenv("VANDAL", flag)
	mem := plugintest.Memory(t)
	scan := func() *core.Registry {
		reg, err := core.ScanAllKernels(t.Context(), []string{dir}, transport.Options{CacheDir: "off", Env: []string{"VANDAL"}}.Open)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { reg.Close() })
		return reg
	}
	named := func(reg *core.Registry) func(*models.Model) {
		return func(m *models.Model) {
			if _, err := core.ApplyKernel(t.Context(), "vandal", m, reg); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := newRun(t, mem, named(scan())).steps(8)
	reg := scan()
	got := newRun(t, mem, named(reg)).steps(4)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got.steps(4)
	// The plugin is the reference run in another process, so the fall-back has its bits.
	sameBits(t, got, want)
	h := reg.Kernels()[0].(core.HealthReporter).Health()
	if h.Deaths < 3 || h.Fallbacks == 0 {
		t.Errorf("health %+v; want three deaths on one call, then fall-backs", h)
	}
	if !strings.Contains(h.LastError, "fault") && !strings.Contains(h.LastError, "signal") {
		t.Errorf("the reason does not tell of a fault: %q", h.LastError)
	}
}
