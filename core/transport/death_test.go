package transport

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

// counted gives plugins a folder to count in; it returns how often a behaviour was
// asked for.
func counted(t *testing.T) func(what string) int {
	dir := t.TempDir()
	t.Setenv(countDir, dir)
	return func(what string) int {
		b, err := os.ReadFile(filepath.Join(dir, what))
		if err != nil {
			return 0
		}
		return len(b)
	}
}

// tell ends the calls that take until then: so one is under way for as long as a test needs it, on a busy machine too.
func tell(t *testing.T) {
	if err := os.WriteFile(told(), nil, 0o600); err != nil {
		t.Error(err)
	}
}

func (p opened) forward(t *testing.T, site string) (*core.Call, error) {
	t.Helper()
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	c.Site = site
	return c, p.norm.Forward(context.Background(), c)
}

// mustForward makes a call that has to succeed with the reference's bits.
func (p opened) mustForward(t *testing.T, site string) {
	t.Helper()
	c, err := p.forward(t, site)
	if err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
}

func (p opened) wantHealth(t *testing.T, want core.Health) {
	t.Helper()
	h := p.norm.Health()
	h.LastError, h.Waited, h.Busy = "", 0, 0
	if h != want {
		t.Errorf("health %+v, want %+v", h, want)
	}
}

// wantDeaths is wantHealth where calls have a deadline, which on a machine that stands still for a while also ends
// calls that do not hang: there may be more deaths, of which each is followed by a repeated call.
func (p opened) wantDeaths(t *testing.T, want core.Health) {
	t.Helper()
	if more := p.norm.Health().Deaths; more > want.Deaths {
		want.Repeats += more - want.Deaths
		want.Deaths = more
	}
	p.wantHealth(t, want)
}

func TestDeathDuringACallIsRepeated(t *testing.T) {
	test := func(t *testing.T, o Options) {
		counted(t)
		p := open(t, o)
		p.mustForward(t, "")
		p.mustForward(t, "die once")
		p.mustForward(t, "")
		p.wantHealth(t, core.Health{Calls: 3, Deaths: 1, Repeats: 1})
		if h := p.norm.Health(); !strings.Contains(h.LastError, "exit status 7") {
			t.Errorf("last error %q does not say how it died", h.LastError)
		}
	}
	onEachPath(t, test)
	onGRPC(t, test)
}

func TestKillBetweenCallsIsNoticed(t *testing.T) {
	test := func(t *testing.T, o Options) {
		p := open(t, o)
		p.mustForward(t, "")
		if err := kill(p.pid()); err != nil {
			t.Fatal(err)
		}
		dead := p.proc
		eventually(t, "noticing the death", func() bool { return isClosed(dead.spawned.ended) })
		dead.cmd.Cancel = func() error { // its number may be another's by now
			t.Error("a group of processes is ended that may be somebody else's")
			return nil
		}
		p.mustForward(t, "")
		p.wantHealth(t, core.Health{Calls: 2, Deaths: 1})
	}
	onEachPath(t, test)
	onGRPC(t, test)
}

// TestWhoCancelsWhileAPluginStartsGivesNobodyUp: the next call may be somebody else's.
func TestWhoCancelsWhileAPluginStartsGivesNobodyUp(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p := open(t, o)
		p.Rest()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
		if err := p.norm.Forward(ctx, c); err != context.Canceled {
			t.Errorf("error %v, want context.Canceled", err)
		}
		p.mustForward(t, "")
		p.wantHealth(t, core.Health{Calls: 2})
	})
}

func TestRestingPluginStartsAgainForACall(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		p.mustForward(t, "")
		before := p.pid()
		p.Rest()
		if p.proc != nil {
			t.Fatal("a resting plugin has a process")
		}
		p.mustForward(t, "")
		if p.pid() == before {
			t.Error("the process did not end")
		}
		p.wantHealth(t, core.Health{Calls: 2})
	})
}

func TestKillDuringACallIsRepeated(t *testing.T) {
	test := func(t *testing.T, o Options) {
		calls := counted(t)
		p := open(t, o)
		pid := p.pid()
		var wg sync.WaitGroup
		wg.Go(func() {
			eventually(t, "the call", func() bool { return calls("hang once") == 1 })
			if err := kill(pid); err != nil {
				t.Error(err)
			}
		})
		p.mustForward(t, "hang once")
		wg.Wait()
		p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1})
		if n := calls("hang once"); n != 2 {
			t.Errorf("the kernel ran %d times, want 2", n)
		}
	}
	onEachPath(t, test)
	onGRPC(t, test)
}

func TestThreeDeathsOnOneCallFallBack(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		calls := counted(t)
		var log lockedBuffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p := open(t, o)
		p.mustForward(t, "die")
		p.wantHealth(t, core.Health{Calls: 1, Deaths: 3, Repeats: 2, Fallbacks: 1})
		p.mustForward(t, "die") // not even tried any more
		p.wantHealth(t, core.Health{Calls: 2, Deaths: 3, Repeats: 2, Fallbacks: 2})
		if calls("die") != 3 {
			t.Errorf("the kernel ran %d times, want 3", calls("die"))
		}
		if n := strings.Count(log.String(), "the same up to rounding"); n != 1 {
			t.Errorf("given up %d times in the log:\n%s", n, &log)
		}
		if err := p.norm.Supports(normFacts()); !errors.Is(err, core.ErrPluginExited) {
			t.Errorf("Supports of a plugin that is given up: %v", err)
		}
	})
}

func TestStrictMakesErrorsOfDeaths(t *testing.T) {
	counted(t)
	p := open(t, quiet(Options{Strict: true}))
	for range 2 {
		_, err := p.forward(t, "die")
		_, of := errors.AsType[*core.KernelError](err)
		if !errors.Is(err, core.ErrPluginExited) || !of || !strings.Contains(err.Error(), "3 times") {
			t.Errorf("error %v", err)
		}
	}
	p.wantHealth(t, core.Health{Calls: 2, Deaths: 3, Repeats: 2})
}

func TestDeadlineEndsAHungCall(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		o.CallTimeout = time.Second
		p := open(t, o)
		p.mustForward(t, "hang once")
		p.wantDeaths(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1})
		if h := p.norm.Health(); !strings.Contains(h.LastError, "longer than 1s") {
			t.Errorf("last error %q", h.LastError)
		}
	})
}

// TestWritingAnInputKillsThePlugin: the memory of the host cannot be written, so a
// kernel that tries dies of it, and what it wanted to spoil is intact.
func TestWritingAnInputKillsThePlugin(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		p.mustForward(t, "write input")
		p.wantHealth(t, core.Health{Calls: 1, Deaths: 3, Repeats: 2, Fallbacks: 1})
		h := p.norm.Health()
		if !strings.Contains(h.LastError, "unexpected fault address") && !strings.Contains(h.LastError,
			"segmentation fault") { // Go, C
			t.Errorf("last error %q does not name the fault", h.LastError)
		}
	})
}

func TestCancelDuringAHungCall(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		calls := counted(t)
		p := open(t, o)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			eventually(t, "the call", func() bool { return calls("hang") == 1 })
			cancel()
		})
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
		c.Site = "hang"
		if err := p.norm.Forward(ctx, c); err != context.Canceled {
			t.Errorf("error %v, want context.Canceled", err)
		}
		wg.Wait()
		p.mustForward(t, "")
		p.wantHealth(t, core.Health{Calls: 2})
	})
}

func TestCancelDuringAShortCallKeepsTheProcess(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		calls := counted(t)
		o.cancelGrace = time.Hour // on a busy machine no call is short
		p := open(t, o)
		pid := p.pid()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			eventually(t, "the call", func() bool { return calls("until told") == 1 })
			cancel()
			time.Sleep(10 * waitSlice) // in which a host that has time for it notices
			tell(t)
		})
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
		c.Site = "until told"
		if err := p.norm.Forward(ctx, c); err != context.Canceled {
			t.Errorf("error %v, want context.Canceled", err)
		}
		wg.Wait()
		p.mustForward(t, "")
		if p.pid() != pid {
			t.Error("the process was started again, though the call ended in time")
		}
		if err := p.norm.Forward(ctx, c); err != context.Canceled {
			t.Errorf("a call with a context that is done: %v", err)
		}
	})
}

func TestAReplacedExecutableIsNotStartedAgain(t *testing.T) {
	canRemove(t)
	for _, strict := range []bool{false, true} {
		counted(t)
		p := open(t, quiet(Options{Strict: strict}))
		path := p.manifest.Path
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/true\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strict {
			p.mustForward(t, "die once")
			p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1, Fallbacks: 1})
		} else if _, err := p.forward(t, "die once"); !errors.Is(err, core.ErrPluginExited) {
			t.Errorf("error %v", err)
		}
		if h := p.norm.Health(); !strings.Contains(h.LastError, "has changed since it was scanned") {
			t.Errorf("last error %q", h.LastError)
		}
	}
}

// TestAPluginThatIsAnotherWhenStartedAgainIsGivenUp: its kernels are known by their place among them, which in a
// language without an order for maps may be another each time.
func TestAPluginThatIsAnotherWhenStartedAgainIsGivenUp(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		o.Env = append(o.Env, countDir)
		p := openRole(t, "changes", o)
		p.mustForward(t, "")
		p.mustForward(t, "die once")
		h := p.norm.Health()
		want := "its kernels were for [rms_norm moe_experts], and now are for [moe_experts rms_norm]; its author must"
		if h.Fallbacks != 1 || !strings.Contains(h.LastError, want) {
			t.Errorf("health %+v; does the last error say %q?", h, want)
		}
	})
}

func TestARemovedExecutableIsNotTakenForAnotherProgram(t *testing.T) {
	canRemove(t)
	counted(t)
	p := open(t, quiet(Options{Strict: true}))
	if err := os.Remove(p.manifest.Path); err != nil {
		t.Fatal(err)
	}
	_, err := p.forward(t, "die once")
	if !errors.Is(err, core.ErrPluginExited) || !errors.Is(err, os.ErrNotExist) || errors.Is(err, core.ErrIncompatible) {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{p.manifest.Path, "put it back or rebuild it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// TestMemoryIsGivenBackAfterClose: whoever has outputs in the plugin's memory may be
// closed after the plugin.
func TestMemoryIsGivenBackAfterClose(t *testing.T) {
	p := open(t, quiet(Options{}))
	b, err := p.norm.OutputMemory().Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.norm.OutputMemory().Free(b)
}

func TestCallsAfterCloseFail(t *testing.T) {
	p := open(t, quiet(Options{}))
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), nil, nil)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.norm.Forward(context.Background(), c); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("Forward: %v", err)
	}
	if err := p.norm.Supports(normFacts()); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("Supports: %v", err)
	}
}
