package transport

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/shm"
)

// running reports whether a process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// TestPluginsEndWithTheirHost kills a program whose two plugins are at rest, and one
// whose plugins are busy with a call.
func TestPluginsEndWithTheirHost(t *testing.T) {
	for _, site := range []string{"rest", "spin"} {
		t.Run(site, func(t *testing.T) {
			calls := counted(t)
			host, plugins := startHost(t, site)
			if site == "spin" {
				eventually(t, "both calls", func() bool { return calls(site) == len(plugins) })
			}
			for _, pid := range plugins {
				if !running(pid) {
					t.Errorf("plugin %d does not run", pid)
				}
			}
			if err := host.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := host.Wait(); err == nil {
				t.Error("the host was not killed")
			}
			for _, pid := range plugins {
				eventually(t, "the end of a plugin", func() bool { return !running(pid) })
			}
		})
	}
}

// startHost starts a program with two plugins, one over each transport, and returns
// their processes.
func startHost(t *testing.T, site string) (host *exec.Cmd, plugins []int) {
	t.Helper()
	host = exec.Command(pluginPath(t, "host_of_plugin"), pluginPath(t, "plugin"), site)
	host.Env = os.Environ()
	if os.Getenv("TMPDIR") == "" {
		host.Env = append(host.Env, "TMPDIR="+t.TempDir()) // where what it leaves does not stay
	}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); len(plugins) < 2 && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		plugins = append(plugins, pid)
	}
	if len(plugins) != 2 {
		t.Fatalf("the host has ended: %v", host.Wait())
	}
	return host, plugins
}

// TestWhatAKilledHostLeavesIsRemoved by the next one that needs the like: the files that
// hold tensors on the portable path can be large.
func TestWhatAKilledHostLeavesIsRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	files := func() []string {
		left, err := filepath.Glob(filepath.Join(tmp, "tune-*"))
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	counted(t)
	p := open(t, quiet(Options{Portable: true}))
	p.mustForward(t, "")
	ours := files()
	host, plugins := startHost(t, "spin")
	eventually(t, "the files of the other host", func() bool { return len(files()) > len(ours) })
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := host.Wait(); err == nil {
		t.Error("the host was not killed")
	}
	for _, pid := range plugins {
		eventually(t, "the end of a plugin", func() bool { return !running(pid) })
	}
	if len(files()) <= len(ours) {
		t.Fatal("the killed host has left nothing")
	}
	open(t, quiet(Options{})) // whichever way it goes
	if got := files(); !slices.Equal(got, ours) {
		t.Errorf("there are %q, want %q", got, ours)
	}
	p.mustForward(t, "") // its memory was not taken for left behind
}

// TestLifelineAloneEndsAPlugin: without the operating system's help, as on other
// systems, the end of the lifeline is enough, also in the middle of a call.
func TestLifelineAloneEndsAPlugin(t *testing.T) {
	calls := counted(t)
	p := open(t, quiet(Options{}))
	bell := p.bell(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		eventually(t, "the call", func() bool { return calls("spin once") == 1 })
		if err := bell.life.conn.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	p.mustForward(t, "spin once")
	wg.Wait()
}

func TestCloseEndsTheProcess(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		pid := p.pid()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if running(pid) {
			t.Errorf("process %d still runs", pid)
		}
	})
}

// TestRestartsLeakNothing restarts plugins dozens of times and counts this process's
// open files, goroutines, shared memory, and what is left in the folder for temporary
// files.
func TestRestartsLeakNothing(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		tmp, err := os.MkdirTemp("", "") // short: the name of a socket in it is limited
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(tmp) })
		t.Setenv("TMPDIR", tmp)
		p := open(t, o)
		restart := func() {
			if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-p.proc.life.gone
			p.mustForward(t, "")
		}
		restart()
		count := func() [3]int { return [3]int{openFiles(t), runtime.NumGoroutine(), mappings(t, os.Getpid(), "tune-")} }
		before := count()
		// What stays after each shows after the first. What stays after a rare moment, the thousand kills of
		// TestKilledPluginsChangeNothing look for.
		restarts := 40
		if o.Portable {
			restarts = 20 // the process is the same, and starting it takes long
		}
		for range restarts {
			restart()
		}
		eventually(t, "closing all files, goroutines and memory", func() bool {
			now := count()
			return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2]
		})
		// tune-* and plugin* are ours and go-plugin's; the test has folders of its own.
		left, err := filepath.Glob(filepath.Join(tmp, "[tp][ul]*"))
		left = slices.DeleteFunc(left, func(path string) bool { return path == pathOf(p.host) || path == pathOf(p.output) })
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

// pathOf returns the file that holds what has been allocated in a memory, "" for none.
func pathOf(m core.Memory) string {
	b, err := m.Alloc(1)
	if err != nil {
		return ""
	}
	defer m.Free(b)
	r, _, _ := shm.Locate(b)
	return r.Path()
}

// TestPluginsUnmapClosedRegions: a plugin that outlives many runs keeps nothing of
// those that are over; what is still open stays.
func TestPluginsUnmapClosedRegions(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		p.mustForward(t, "")
		for range 5 {
			run, err := o.NewMemory("run", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), run, p.output)
			if err := p.norm.Forward(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			wantReference(t, c)
			if n := mappings(t, p.pid(), "tune-run"); n != 1 {
				t.Errorf("%d regions of runs are mapped, want that of the present one", n)
			}
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
		}
		p.mustForward(t, "")
		if n := mappings(t, p.pid(), "tune-run"); n != 0 {
			t.Errorf("%d regions of runs are mapped after the last one", n)
		}
		if n := mappings(t, p.pid(), "tune-host"); n != 1 {
			t.Errorf("the host's region, still open, is mapped %d times", n)
		}
		p.wantHealth(t, core.Health{Calls: 7})
	})
}

// mappings counts the mappings of a process whose names contain the text.
func mappings(t *testing.T, pid int, name string) int {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), name)
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
