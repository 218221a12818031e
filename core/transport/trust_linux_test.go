package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// TestSecretsDoNotReachPlugins looks at what the system has of a plugin's environment.
func TestSecretsDoNotReachPlugins(t *testing.T) {
	secrets := []string{"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "GITHUB_TOKEN",
		"GOPROXY", "SSH_AUTH_SOCK"}
	for _, name := range secrets {
		t.Setenv(name, "secret")
	}
	t.Setenv("LANG", "C.UTF-8")
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid()))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for e := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
			name, _, _ := strings.Cut(string(e), "=")
			names = append(names, name)
		}
		for _, name := range secrets {
			if slices.Contains(names, name) {
				t.Errorf("%s reaches a plugin", name)
			}
		}
		if !slices.Contains(names, "LANG") {
			t.Error("LANG does not")
		}
		allowed := append(o.Environment(), "TUNE_PLUGIN", "TUNE_LINK", "TUNE_SPIN", "TUNE_THREADS", "TUNE_KEEP",
			"TUNE_HOST_PID", "PLUGIN_*")
		for _, name := range names {
			if !slices.ContainsFunc(allowed, func(pattern string) bool { return standsFor(pattern, name) }) {
				t.Errorf("%s reaches plugins and is not on the list", name)
			}
		}
	})
}

// TestPluginsInheritNoDescriptorButOurs: neither the host's standard input nor what the
// host has inherited itself.
func TestPluginsInheritNoDescriptorButOurs(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // as from a shell: not closed by exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		dir := fmt.Sprintf("/proc/%d/fd/", p.pid())
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			to, err := os.Readlink(dir + e.Name())
			if err != nil {
				continue // closed meanwhile
			}
			if e.Name() == "0" && to != os.DevNull {
				t.Errorf("standard input is %s", to)
			}
			if to == secret || to == p.manifest.Path {
				t.Errorf("descriptor %s is %s", e.Name(), to)
			}
		}
	})
}

// TestProcessesOfPluginsAreNamedAfterThem: in the lists that ps and top show.
func TestProcessesOfPluginsAreNamedAfterThem(t *testing.T) {
	p := open(t, quiet(Options{}))
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid()))
	if err != nil || string(comm) != "plugin\n" {
		t.Errorf("%q, %v", comm, err)
	}
}

func TestPluginsWorkInTheirOwnFolder(t *testing.T) {
	p := open(t, quiet(Options{}))
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid()))
	if err != nil || dir != filepath.Dir(p.manifest.Path) {
		t.Errorf("%s, %v", dir, err)
	}
}

// TestWhatIsStartedIsWhatWasChecked: replacing the file between the check and the start
// has no effect, and writing into it is not possible.
func TestWhatIsStartedIsWhatWasChecked(t *testing.T) {
	path := pluginPath(t, "exits")
	self, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, self, 0o700)); err != nil { // a file of its own, not a link
		t.Fatal(err)
	}
	exe, err := openExecutable(native, path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	sum := sha256.Sum256(self)
	if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		unix.Close(fd)
		t.Error("the file can be opened for writing between its check and its start")
	} else if !errors.Is(err, unix.EWOULDBLOCK) {
		t.Skip("no leases here:", err)
	}
	other, ran := telltale(t)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	_, err = startExecutable(context.Background(), quiet(Options{}).withDefaults(), exe, hex.EncodeToString(sum[:]))
	if !errors.Is(err, core.ErrPluginExited) || !strings.Contains(err.Error(), "ended before the handshake") {
		t.Errorf("error %v, want that of the file that was checked", err)
	}
	if ran() {
		t.Error("what came to lie at the path ran")
	}
}

func TestAPipeInAPluginFolderIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := quiet(Options{}).Open(context.Background(), path)
	if !errors.Is(err, core.ErrIncompatible) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}

// TestAPluginThatFillsMemoryDiesAtItsLimit: and the run goes on without it.
func TestAPluginThatFillsMemoryDiesAtItsLimit(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes more address space than any limit")
	}
	calls := counted(t)
	const limit = 256 << 20
	o := quiet(Options{MaxMemory: limit})
	o.OutputSize = 1 << 30
	p := open(t, o)
	p.mustForward(t, "")
	p.mustForward(t, "fill memory")
	p.wantHealth(t, core.Health{Calls: 2, Deaths: 3, Repeats: 2, Fallbacks: 1})
	if n := calls("fill memory"); n != 3 {
		t.Errorf("the kernel ran %d times, want 3", n)
	}
	// Which request is one too many is chance: Go's for its heap, for what it notes of that, or for a thread; or one of
	// its garbage collector, which goes on without looking whether it got anything (Go 1.26, spanQueue.tryDrain).
	said := regexp.MustCompile("(out of memory|cannot allocate memory|pthread_create failed|SIGSEGV|" + noThread +
		").*limited to 256 MiB")
	if h := p.norm.Health(); !said.MatchString(h.LastError) {
		t.Errorf("last error %q is not like %q", h.LastError, said)
	}
	if n := p.output.Limit(); n != limit {
		t.Errorf("the plugin may write %d bytes of outputs, want no more than %d", n, limit)
	}
}

func TestPluginsKeepToTheirProcessors(t *testing.T) {
	var before, during, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		t.Skip("a machine with one processor")
	}
	counted(t)
	p := open(t, quiet(Options{MaxCPUs: 1}))
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(task.Name(), &tid); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(tid, &during); err == nil && during.Count() != 1 {
			t.Errorf("thread %d may run on %d processors, want 1", tid, during.Count())
		}
	}
	if _, err := p.forward(t, "threads"); err == nil || !strings.Contains(err.Error(), "GOMAXPROCS is 1") {
		t.Errorf("%v", err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		var tid int
		if _, err := fmt.Sscan(thread.Name(), &tid); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(tid, &after); err == nil && after != before {
			t.Errorf("thread %d of the host is left with %d processors", tid, after.Count())
		}
	}
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, o := range []Options{{MaxMemory: -1}, {MaxCPUs: -1}} {
		_, opening := o.Open(t.Context(), "plugin")
		for _, err := range []error{o.CheckLimits(), opening} {
			if err == nil || !strings.Contains(err.Error(), "must not be negative") {
				t.Errorf("%v", err)
			}
		}
	}
}

// TestTheHostTrustsNoAnswer: a plugin can write anything into the memory of calls.
func TestTheHostTrustsNoAnswer(t *testing.T) {
	d, _, err := newDoorbell(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, fill := range []byte{0x01, 0x7f, 0x80, 0xff} {
		mem := d.control.Bytes()
		for i := range mem {
			mem[i] = fill
		}
		d.number, d.waiting = 1, false
		wire.Order.PutUint32(mem[wire.OffReply:], d.number) // otherwise it is not taken for an answer at all
		a, ok := d.wait(waitSlice)
		if !ok || len(a.Text) > wire.OffRecord-wire.OffAnswer || a.Busy < 0 {
			t.Errorf("filled with %#x: answered %v with %d bytes of text after %v", fill, ok, len(a.Text), a.Busy)
		}
		if err := statusError(a); err == nil || errors.Is(err, core.ErrNotSupported) {
			t.Errorf("filled with %#x: taken for %v", fill, err)
		}
	}
}
