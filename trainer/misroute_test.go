package trainer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer/models"
)

// TestExpertsThatDoNotExistAreAFailureOfThePlugin: what a plugin returns is used as an
// index by the host, for the plain experts and for the balance of experts, and by other
// plugins. The plugin is the reference run in another process, so that the fall-back has
// its bits, and so has a run whose plugin changes the ids only after it has answered.
func TestExpertsThatDoNotExistAreAFailureOfThePlugin(t *testing.T) {
	dir := t.TempDir()
	plugintest.Compile(t, dir, "./trainer/testdata/misroute")
	flag := filepath.Join(t.TempDir(), "harm")
	t.Setenv("MISROUTE", flag)
	mem := plugintest.Memory(t)
	scan := func(t *testing.T, o transport.Options) *core.Registry {
		o.CacheDir, o.Env = "off", []string{"MISROUTE"}
		reg, err := core.ScanAllKernels(t.Context(), []string{dir}, o.Open)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { reg.Close() })
		return reg
	}
	patch := func(reg *core.Registry) func(*models.Model) {
		return func(m *models.Model) {
			if _, err := core.ApplyKernel(t.Context(), "misroute", m, reg); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := newRun(t, mem, patch(scan(t, transport.Options{}))).steps(6)
	for _, tt := range []struct {
		harm string
		says string // "" where it may go unnoticed, because nothing came of it
		o    transport.Options
	}{
		{"too large", "expert_ids[50,1] = 4, which must be at least 0 and below 4", transport.Options{}},
		{"too large", "expert_ids[50,1] = 4", transport.Options{Portable: true}},
		{"negative", "expert_ids[50,1] = -1", transport.Options{}},
		{"twice", "which that row has already", transport.Options{}},
		{"later", "", transport.Options{}},
		{"later", "", transport.Options{Portable: true}},
	} {
		t.Run(tt.harm, func(t *testing.T) {
			reg := scan(t, tt.o)
			got := newRun(t, mem, patch(reg)).steps(2)
			if err := os.WriteFile(flag, []byte(tt.harm), 0o600); err != nil {
				t.Fatal(err)
			}
			got.steps(4)
			if err := os.Remove(flag); err != nil {
				t.Fatal(err)
			}
			sameBits(t, got, want)
			h := reg.Kernels()[0].(core.HealthReporter).Health()
			if h.Copies != 0 && !tt.o.Portable {
				t.Errorf("%d tensors were copied for want of shared memory", h.Copies)
			}
			if tt.says == "" {
				return
			}
			if strings.Contains(h.LastError, "signal") {
				t.Errorf("%q; nobody but the host has ended it", h.LastError)
			}
			if h.Deaths != 3 || h.Fallbacks == 0 || !strings.Contains(h.LastError, tt.says) {
				t.Errorf("health %+v; want three deaths on one call, then fall-backs, and %q", h, tt.says)
			}
		})
	}
}
