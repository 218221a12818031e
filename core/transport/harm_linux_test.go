package transport

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// TestUnaskedAnswersAreNotBelieved writes into the control memory what a plugin should
// not: an answer before the request, one to another request, and one about a region.
func TestUnaskedAnswersAreNotBelieved(t *testing.T) {
	for name, spoil := range map[string]func(p opened, bell *doorbell){
		"the next answer": func(_ opened, bell *doorbell) { reply(bell, 1) },
		"another answer":  func(_ opened, bell *doorbell) { reply(bell, 77) },
		"an old answer":   func(_ opened, bell *doorbell) { reply(bell, ^uint32(0)) },
		"about a region": func(p opened, bell *doorbell) {
			bell.life.said <- []byte{0}
			p.proc.shared = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, quiet(Options{}))
			p.mustForward(t, "")
			spoil(p, p.bell(t))
			p.mustForward(t, "")
			p.wantHealth(t, core.Health{Calls: 2, Deaths: 1, Repeats: 1})
			if h := p.norm.Health(); !strings.Contains(h.LastError, errUnasked.Error()) {
				t.Errorf("last error %q", h.LastError)
			}
		})
	}
}

// reply counts the number of the latest answer up.
func reply(bell *doorbell, by uint32) {
	atomic.AddUint32((*uint32)(unsafe.Pointer(&bell.control.Bytes()[wire.OffReply])), by)
}

// TestASpoiledRecordIsHarmless spoils all that a plugin can write in the
// control memory, between calls; the host writes it anew for each call.
func TestASpoiledRecordIsHarmless(t *testing.T) {
	p := open(t, quiet(Options{}))
	p.mustForward(t, "")
	mem := p.bell(t).control.Bytes()
	for i := wire.OffStatus; i < len(mem); i++ {
		mem[i] = 0xFF
	}
	p.mustForward(t, "")
	p.wantHealth(t, core.Health{Calls: 2})
}

func TestNonsenseInAnAnswerIsHarmless(t *testing.T) {
	p := open(t, quiet(Options{}))
	bell := p.bell(t)
	mem := bell.control.Bytes()
	for i := wire.OffStatus; i < wire.OffRecord; i++ {
		mem[i] = 0xFF
	}
	wire.Order.PutUint32(mem[wire.OffStatus:], 77)
	copy(mem[wire.OffAnswer:], "\x1b[2J one\r\ntwo \x00")
	bell.number++
	reply(bell, 1)
	a, ok := bell.wait(time.Second)
	if !ok || a.broken != nil || len(a.Text) > wire.MaxAnswer || a.Busy <= 0 {
		t.Fatalf("answer %+v, %v", a, ok)
	}
	err := statusError(a)
	if err == nil || errors.Is(err, core.ErrNotSupported) || strings.ContainsAny(err.Error(), "\x1b\r\n\x00") {
		t.Errorf("error %q", err)
	}
	if err := statusError(answer{Answer: wire.Answer{Status: 77}}); err == nil || !strings.Contains(err.Error(),
		"status 77") {
		t.Errorf("error %v", err)
	}
}

// bell is the host's end of the doorbell; a test on a path without one is skipped.
func (p opened) bell(t *testing.T) *doorbell {
	t.Helper()
	bell, ok := p.proc.link.(*doorbell)
	if !ok {
		t.Skip("calls go by RPC here: there is no doorbell to spoil")
	}
	return bell
}

func TestAPluginWithoutMemoryDies(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		p := open(t, o)
		p.mustForward(t, "fill memory once")
		p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1})
	})
}

// child returns the process that a plugin has started.
func child(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(os.Getenv(countDir), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestAPluginsChildrenEndWithIt: when it dies, and when it is closed in order.
func TestAPluginsChildrenEndWithIt(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		p := open(t, o)
		p.mustForward(t, "leave a child")
		p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1})
		first := child(t)
		eventually(t, "the end of the child", func() bool { return !running(first) })
		p.mustForward(t, "have a child")
		second := child(t)
		if !running(second) {
			t.Fatal("there is no child")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		eventually(t, "the end of the child", func() bool { return !running(second) })
	})
}

// TestADaemonHoldsNobodyUp: a process that leaves the plugin's process group is not
// ended with it, but neither its output, which it still has open, nor the call is
// waited for, and nothing stays behind in this process.
func TestADaemonHoldsNobodyUp(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		counted(t)
		p := open(t, o)
		p.mustForward(t, "")
		files, goroutines := openFiles(t), runtime.NumGoroutine()
		p.mustForward(t, "leave a daemon")
		p.wantHealth(t, core.Health{Calls: 2, Deaths: 1, Repeats: 1})
		daemon := child(t)
		if !running(daemon) {
			t.Error("the daemon has ended; then docs/failures.md says too little")
		}
		eventually(t, "closing the old process's files", func() bool {
			return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
		})
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
}
