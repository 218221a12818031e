package transport

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
)

func TestOpenAsksThePluginWhoItIs(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p := open(t, o)
		m := p.Manifest()
		file := strings.TrimSuffix(filepath.Base(m.Path), ".exe")
		if m.Name != "test_kernels" || m.Version != "1.2.3" || file != "plugin" || len(m.Checksum) != 64 {
			t.Errorf("manifest %+v", m)
		}
		if len(m.Kernels) != 2 || len(p.Kernels()) != 2 {
			t.Fatalf("%d kernels", len(m.Kernels))
		}
		for i, k := range testKernels() {
			want := k.Info()
			want.Name, want.Version = "test_kernels", "1.2.3"
			want.Rounds = nil // is of use to the kernel's own Supports, which the plugin is asked for
			for _, got := range []core.Info{m.Kernels[i], p.Kernels()[i].Info()} {
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("kernel %d (-want +got):\n%s", i, d)
				}
			}
		}
	})
}

func TestOpenSaysWhatIsWrongWithAFile(t *testing.T) {
	file := func(content string, mode os.FileMode) func(t *testing.T) string {
		return func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(content), mode); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	role := func(role string) func(t *testing.T) string {
		return func(t *testing.T) string { return pluginPath(t, role) }
	}
	cases := map[string]struct {
		path func(t *testing.T) string
		is   error
		text string
	}{
		"absent": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "file") },
			os.ErrNotExist, "file"},
		"a folder": {func(t *testing.T) string { return t.TempDir() },
			core.ErrIncompatible, "not a regular file"},
		"not executable":       {file("text", 0o600), core.ErrIncompatible, "chmod +x /"},
		"not a program":        {file("\x7fELFish", 0o700), core.ErrIncompatible, "not a program for this machine"},
		"prints another thing": {role("prints"), core.ErrIncompatible, "not a kernel plugin"},
		"no interpreter":       {file("#!/no/such/program\n", 0o700), os.ErrNotExist, "the interpreter that it names"},
		"exits":                {role("exits"), core.ErrPluginExited, "ended before the handshake (exit status"},
		"prints and exits": {role("prints_and_exits"), core.ErrIncompatible,
			`have it print to standard error; it printed "licence server 2" (exit status 3); its last words: no licence`},
		"prints and goes on": {file("#!/bin/sh\necho hello; sleep 1000\n", 0o700), core.ErrIncompatible,
			`move it out of the plugin folder, or have it print to standard error; it printed "hello"`},
		"prints half a line": {file("#!/bin/sh\necho 'hello1|2|unix|/none|netrpc|'; sleep 1000\n", 0o700),
			core.ErrIncompatible, `standard error: error parsing core protocol version: strconv.Atoi: parsing "hello1"`},
		"prints an error of the system's": {file("#!/bin/sh\necho error: bad file descriptor; exit 3\n", 0o700),
			core.ErrIncompatible, `print to standard error; it printed "error: bad file descriptor" (exit status 3)`},
		"loads nothing": {role("loads_nothing"), core.ErrPluginExited, "it ended before the handshake (exit status 1); " +
			"its last words: hello, I am half a library; test_kernels: the other half is missing"},
		"has no thread": {file("#!/bin/sh\necho runtime/cgo: pthread_create failed: no luck >&2; exit 2\n", 0o700),
			core.ErrPluginExited, "no luck; raise the limit of processes and threads (ulimit -u"},
		"has no thread, nor libc": {file("#!/bin/sh\necho 'runtime: failed to create new OS thread (have 2)' >&2; exit 2\n",
			0o700), core.ErrPluginExited, "(have 2); raise the limit of processes and threads (ulimit -u"},
		"panics":          {role("panics"), core.ErrPluginExited, "panic: no such device"},
		"hangs":           {role("hangs"), core.ErrPluginExited, "did not shake hands in time"},
		"hangs later":     {role("hangs_later"), core.ErrPluginExited, "did not answer within 7s"},
		"dies later":      {role("dies_later"), core.ErrPluginExited, "exit status 5"},
		"another version": {role("other_version"), core.ErrIncompatible, "rebuild the plugin"},
		"another cookie":  {role("other_cookie"), core.ErrIncompatible, "not a kernel plugin"},
		"no kernels":      {role("no_kernels"), core.ErrIncompatible, "offers no kernel"},
		"an endless line": {role("endless_line"), core.ErrPluginExited, "did not shake hands in time"},
		"leaves a child": {file("#!/bin/sh\nsleep 1000\n",
			0o700), core.ErrPluginExited, "did not shake hands in time"},
	}
	if runtime.GOOS == "windows" { // which has neither modes nor scripts
		for _, name := range []string{"not executable", "not a program", "no interpreter", "leaves a child", "has no thread",
			"has no thread, nor libc", "prints and goes on", "prints an error of the system's"} {
			delete(cases, name)
		}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			o := quiet(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			path := tc.path(t) // while no other test starts a process that has it open
			if tc.is == core.ErrPluginExited {
				t.Parallel() // most of these wait
				o.StartTimeout = patience(tc.text)
			}
			p, err := o.Open(context.Background(), path)
			if err == nil {
				t.Fatalf("opened %v, %v", p.Manifest(), p.Close())
			}
			for _, want := range []string{path, tc.text} {
				if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), want) {
					t.Errorf("error %q is not %q, or does not say %q", err, tc.is, want)
				}
			}
			if o.StartTimeout == short && !strings.Contains(log.String(), "waiting for a plugin: ") {
				t.Errorf("nothing is said while it is waited for: %s", log.String())
			}
		})
	}
}

// TestWhatIsPrintedWhileAPluginLoadsIsNoHandshake: it is logged as what goes to standard error is.
func TestWhatIsPrintedWhileAPluginLoadsIsNoHandshake(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p, err := o.Open(context.Background(), pluginPath(t, "loads_loud"))
		if err != nil {
			t.Fatal(err)
		}
		words := p.(*plugin).proc.words
		if err := p.Close(); err != nil { // which reads what is left of its output
			t.Error(err)
		}
		if m := p.Manifest(); m.Name != "test_kernels" || words.String() != "hello, I am a library" {
			t.Errorf("manifest %+v, last words %q", m, words)
		}
	})
}

func TestOpenStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := quiet(Options{}).Open(ctx, pluginPath(t, "hangs"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestServeByHandHelps(t *testing.T) {
	out, err := exec.Command(pluginPath(t, "plugin")).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out),
		"test_kernels 1.2.3 is a kernel plugin of tune") {
		t.Errorf("%v: %s", err, out)
	}
}
