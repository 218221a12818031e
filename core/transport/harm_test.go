package transport

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

// openRole opens a plugin of which only the first kernel matters, rms_norm.
func openRole(t *testing.T, role string, o Options) opened {
	t.Helper()
	p, err := o.Open(context.Background(), pluginPath(t, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	pl := p.(*plugin)
	return opened{plugin: pl, norm: pl.kernels[0]}
}

// TestAPluginThatOnlyShakesHandsLeavesNothing: go-plugin would go on connecting to one
// that has ended before it was connected to.
func TestAPluginThatOnlyShakesHandsLeavesNothing(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		before, path := runtime.NumGoroutine(), pluginPath(t, "only_greets")
		for range 3 {
			if _, err := o.Open(context.Background(), path); !errors.Is(err, core.ErrPluginExited) {
				t.Fatalf("error %v", err)
			}
		}
		eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
	})
}

func TestHarmInBackwardIsRepeated(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		o.CallTimeout = time.Second
		p := open(t, o)
		for i, site := range []string{"die once", "hang once"} {
			c := makeCall(t, core.RMSNorm, core.Backward, normFacts(), p.host, p.output)
			c.Site = site
			if err := p.norm.Backward(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			wantReference(t, c)
			n := uint64(i + 1)
			p.wantDeaths(t, core.Health{Calls: n, Deaths: n, Repeats: n})
		}
	})
}

func TestDeathAndHangInBindFallBack(t *testing.T) {
	for role, says := range map[string]string{"dies_in_bind": "exit status 7", "hangs_in_bind": "did not answer within"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel() // one waits
			p := openRole(t, role, quiet(Options{StartTimeout: patience(says), Env: []string{countDir + "=" + t.TempDir()}}))
			p.mustForward(t, "")
			p.wantHealth(t, core.Health{Calls: 1, Deaths: 3, Repeats: 2, Fallbacks: 1})
			if h := p.norm.Health(); !strings.Contains(h.LastError, says) {
				t.Errorf("last error %q does not say %q", h.LastError, says)
			}
		})
	}
}

// TestAPluginThatDiesWhenAskedIsGivenUp: with hundreds of sites, asking on would take
// for ever.
func TestAPluginThatDiesWhenAskedIsGivenUp(t *testing.T) {
	for dim, says := range map[int]string{15: "exit status 7", 16: "did not answer within"} {
		t.Run(says, func(t *testing.T) {
			t.Parallel() // one waits
			dir := t.TempDir()
			p := openRole(t, "plugin", quiet(Options{StartTimeout: patience(says), Env: []string{countDir + "=" + dir}}))
			f := normFacts()
			f.Dim = dim
			for range maxDeaths + 2 {
				if err := p.norm.Supports(f); !errors.Is(err, core.ErrPluginExited) || !strings.Contains(err.Error(), says) {
					t.Errorf("error %v", err)
				}
			}
			if asked, err := os.ReadFile(filepath.Join(dir, "asked")); len(asked) != maxDeaths {
				t.Errorf("it was asked %d times, want %d; %v", len(asked), maxDeaths, err)
			}
		})
	}
}

// TestAChangedMindChangesNoCall: what was planned is called; the kernel may still refuse
// the call, see TestNotSupportedFallsBack.
func TestAChangedMindChangesNoCall(t *testing.T) {
	counted(t)
	p := open(t, quiet(Options{}))
	f := normFacts()
	f.Dim = 14
	if err := p.norm.Supports(f); err != nil {
		t.Fatal(err)
	}
	if err := p.norm.Supports(f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
	c := makeCall(t, core.RMSNorm, core.Forward, f, p.host, p.output)
	if err := p.norm.Forward(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
	p.wantHealth(t, core.Health{Calls: 1})
}

func TestNonsenseInADescriptionIsRefused(t *testing.T) {
	long, many := strings.Repeat("x", 300), make([]core.Info, maxKernels+1)
	one := func(k core.Info) []core.Info { return []core.Info{k} }
	for name, tc := range map[string]struct {
		m    core.Manifest
		says string
	}{
		"long name":      {core.Manifest{Name: long}, "its name"},
		"escapes":        {core.Manifest{Name: "\x1b[2Jname"}, "cannot be printed"},
		"not UTF-8":      {core.Manifest{Name: "a", Version: "\xff\xfe"}, "cannot be printed"},
		"many kernels":   {core.Manifest{Name: "a", Kernels: many}, "65 kernels"},
		"lines in an op": {core.Manifest{Name: "a", Kernels: one(core.Info{Op: "a\nb"})}, "its op"},
		"long summary":   {core.Manifest{Name: "a", Kernels: one(core.Info{Summary: long})}, "its summary"},
		"many dtypes": {core.Manifest{Name: "a",
			Kernels: one(core.Info{Op: "b", DTypes: make([]core.DType, maxDTypes+1)})}, "17 dtypes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkDescription(tc.m)
			if err == nil || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 200 {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAFloodOfOutputIsDropped prints megabytes without an end of line, by every way
// there is, while the log is off.
func TestAFloodOfOutputIsDropped(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		o.Logger = slog.New(slog.DiscardHandler)
		p := open(t, o)
		p.mustForward(t, "")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p.mustForward(t, "flood")
		p.mustForward(t, "")
		p.wantHealth(t, core.Health{Calls: 3})
		if n := len(p.proc.words.String()); n > maxLastWords {
			t.Errorf("%d bytes of it are kept", n)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > flood/4 {
			t.Errorf("the host has %d bytes more in use", grown)
		}
	})
}
