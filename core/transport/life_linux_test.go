package transport

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/core"
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

func TestPluginsEndWithTheirHost(t *testing.T) {
	path := pluginPath(t, "plugin")
	cmd := exec.Command(pluginPath(t, "host_of_plugin"), path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) < 2 && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("plugin %d does not run", pid)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || len(pids) != 2 {
		t.Fatalf("host: %v, plugins %v", err, pids)
	}
	for _, pid := range pids {
		eventually(t, "the end of a plugin", func() bool { return !running(pid) })
	}
}

// TestLifelineAloneEndsAPlugin: without the operating system's help, as on other
// systems, the end of the lifeline is enough.
func TestLifelineAloneEndsAPlugin(t *testing.T) {
	p := open(t, quiet(Options{}))
	if err := p.proc.life.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the plugin", p.proc.gone)
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

// TestRestartsLeakNothing restarts a plugin often and counts this process's open files
// and what is left in the folder for temporary files.
func TestRestartsLeakNothing(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		tmp, err := os.MkdirTemp("", "") // short: the name of a socket in it is limited
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		t.Setenv("TMPDIR", tmp)
		p := open(t, o)
		restart := func() {
			if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "noticing the death", p.proc.gone)
			p.mustForward(t, "")
		}
		restart()
		before := openFiles(t)
		for range 20 {
			restart()
		}
		eventually(t, "closing all files", func() bool { return openFiles(t) <= before })
		// tune-* and plugin* are ours and go-plugin's; the test has folders of its own.
		if left, err := filepath.Glob(filepath.Join(tmp, "[tp][ul]*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

// TestPluginsUnmapClosedRegions: a plugin that outlives many runs keeps nothing of
// those that are over; what is still open stays.
func TestPluginsUnmapClosedRegions(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		p.mustForward(t, "")
		for range 5 {
			run, err := NewMemory("run", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), run, p.output)
			if err := p.norm.Forward(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			wantReference(t, c)
			if n := mappings(t, p.pid(), "memfd:tune-run"); n != 1 {
				t.Errorf("%d regions of runs are mapped, want that of the present one", n)
			}
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
		}
		p.mustForward(t, "")
		if n := mappings(t, p.pid(), "memfd:tune-run"); n != 0 {
			t.Errorf("%d regions of runs are mapped after the last one", n)
		}
		if n := mappings(t, p.pid(), "memfd:tune-host"); n != 1 {
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
