package transport

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

// TestAStoppedPluginIsSaid: long before its deadline, and once it goes on, nothing has
// happened.
func TestAStoppedPluginIsSaid(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		log := &lockedBuffer{}
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		p := open(t, o)
		p.mustForward(t, "")
		if err := syscall.Kill(p.pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pid := p.pid()
		eventually(t, "the stop of all its threads", func() bool { return stopped(t, pid) })
		done := make(chan error, 1)
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
		c.Site = "layers.7.norm"
		go func() { done <- p.norm.Forward(context.Background(), c) }()
		eventually(t, "a word about the process",
			func() bool { return strings.Contains(log.String(), "waiting for a plugin's call") })
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantReference(t, c)
		p.wantHealth(t, core.Health{Calls: 2})
		for _, want := range []string{"plugin=" + p.manifest.Name, "op=rms_norm", "pass=forward", "site=layers.7.norm",
			"waited=", "after 1m0s",
			fmt.Sprintf("%d, which is stopped: kill -CONT %d", pid, pid)} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log: %s", want, log)
			}
		}
	})
}

// TestAStoppedPluginThatReadsNoRequestIsEnded: one that is longer than what the system keeps for a reader, which on
// macOS is 8 KiB.
func TestAStoppedPluginThatReadsNoRequestIsEnded(t *testing.T) {
	p := open(t, quiet(Options{Portable: true}))
	c := makeCall(t, core.MoEExperts, core.Forward, moeFacts(3000), p.host, p.output)
	if err := p.moe.Forward(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.proc.link.(*streamLink).limit = time.Millisecond
	pid := p.pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop of all its threads", func() bool { return stopped(t, pid) })
	if err := p.moe.Forward(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
	h := p.moe.Health()
	if h.Deaths != 1 || h.Repeats != 1 || h.Fallbacks > 0 || !strings.Contains(h.LastError, "it took no request") {
		t.Errorf("health %+v; the call is to be made again by a new process", h)
	}
}

// stopped reports whether every thread of a process is stopped: one that still runs could
// answer a call.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(threads, func(e os.DirEntry) bool {
		id, err := strconv.Atoi(e.Name())
		return err == nil && !isStopped(id)
	})
}

// TestASlowCallIsSaidOnce: large calls may take their time, each of them.
func TestASlowCallIsSaidOnce(t *testing.T) {
	log := &lockedBuffer{}
	o := quiet(Options{})
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	p := open(t, o)
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	p.mustForward(t, "")
	for range 3 {
		p.sayWaiting(c, slowAfter, time.Minute)
	}
	if n := strings.Count(log.String(), "waiting for a plugin"); n != 1 {
		t.Errorf("said %d times", n)
	}
	p.sayWaiting(c, 2*slowAfter, time.Minute)
	if n := strings.Count(log.String(), "waiting for a plugin"); n != 2 {
		t.Errorf("said %d times after one that takes longer", n)
	}
}
