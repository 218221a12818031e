package transport

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// What onEachPath runs on "bare" is not repeated here.

// openBare opens the plugin in C.
func openBare(t *testing.T, o Options) opened {
	t.Helper()
	t.Setenv(barePlugin, compileBare(t))
	return open(t, o)
}

func TestOpenAsksABarePluginWhoItIs(t *testing.T) {
	p := openBare(t, quiet(Options{}))
	if m := p.Manifest(); m.Name != "test_kernels" || m.Version != "1.2.3" || len(m.Checksum) != 64 {
		t.Errorf("manifest %+v", m)
	}
	want := []core.Info{{Name: "test_kernels", Op: core.RMSNorm, Version: "1.2.3", Summary: "the plain norm",
		DTypes: []core.DType{core.Float32}, Backward: true}}
	if d := cmp.Diff(want, p.Manifest().Kernels); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// bareScript returns an executable that shakes hands and then runs a command.
func bareScript(t *testing.T, version int, way, then string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho '1|%d|unix|-|%s'\n%s\n", version, way, then),
		0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABarePluginNeedsTheDoorbell(t *testing.T) {
	path := bareScript(t, ProtocolVersion, "bare", "sleep 1000")
	_, err := quiet(Options{Portable: true}).Open(context.Background(), path)
	if !errors.Is(err, core.ErrIncompatible) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(),
		"needs the doorbell") {
		t.Errorf("error %v", err)
	}
}

// TestOpenSaysWhatIsWrongWithABarePlugin opens scripts that shake hands and no more.
func TestOpenSaysWhatIsWrongWithABarePlugin(t *testing.T) {
	if (Options{}).withDefaults().Portable {
		t.Skip("bare plugins are refused")
	}
	own, err := wire.NewCertificate(x509.ExtKeyUsageServerAuth)
	if err != nil {
		t.Fatal(err)
	}
	byRPC := wire.GreetRPC + "|" + base64.RawStdEncoding.EncodeToString(own.Certificate[0])
	cases := map[string]struct {
		version   int
		way, then string
		is        error
		text      string
	}{
		"says no more":    {ProtocolVersion, "bare", "sleep 1000", core.ErrPluginExited, "did not answer within 7s"},
		"ends":            {ProtocolVersion, "bare", "exit 5", core.ErrPluginExited, "exit status 5"},
		"another version": {ProtocolVersion + 1, "bare", "sleep 1000", core.ErrIncompatible, "rebuild the plugin"},
		"another way":     {ProtocolVersion, "morse", "sleep 1000", core.ErrIncompatible, "not a kernel plugin"},
		"speaks gRPC":     {ProtocolVersion, byRPC, "sleep 1000", core.ErrIncompatible, "though TUNE_LINK told it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := bareScript(t, tc.version, tc.way, tc.then) // while no other test starts a process that has it open
			t.Parallel()                                       // one waits
			_, err := quiet(Options{StartTimeout: patience(tc.text)}).Open(context.Background(), path)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %v that says %q", err, tc.is, tc.text)
			}
		})
	}
}

func TestErrorsOfABarePluginComeBack(t *testing.T) {
	p := openBare(t, quiet(Options{Strict: true}))
	_, err := p.forward(t, "error")
	var ke *core.KernelError
	if !errors.As(err, &ke) || !strings.Contains(err.Error(), "the device is on fire") {
		t.Errorf("error %v", err)
	}
	if _, err := p.forward(t, "not supported"); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(),
		"only even days") {
		t.Errorf("not supported: %v", err)
	}
	f := normFacts()
	f.Offset = 1
	if err := p.norm.Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(),
		"the fact offset is not known") {
		t.Errorf("a fact that it does not know: %v", err)
	}
	p.mustForward(t, "")
}

func TestWhatABarePluginPrintsIsLogged(t *testing.T) {
	for _, where := range []string{"print", "print to standard output"} {
		var log lockedBuffer
		p := openBare(t, quiet(Options{Logger: slog.New(slog.NewTextHandler(&log,
			&slog.HandlerOptions{Level: slog.LevelDebug}))}))
		p.mustForward(t, where)
		eventually(t, "the log record of "+where, func() bool {
			return strings.Contains(log.String(), `level=DEBUG msg="a word from the kernel"`)
		})
	}
}

func TestAReplacedBarePluginIsNotStartedAgain(t *testing.T) {
	counted(t)
	p := openBare(t, quiet(Options{}))
	if err := os.Remove(p.manifest.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.manifest.Path, []byte("#!/bin/true\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.mustForward(t, "die once")
	p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1, Fallbacks: 1})
	if h := p.norm.Health(); !strings.Contains(h.LastError, "has changed since it was scanned") {
		t.Errorf("last error %q", h.LastError)
	}
}

func TestABarePluginEndsWithItsHost(t *testing.T) {
	cmd := exec.Command(pluginPath(t, "host_of_bare"), compileBare(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil || !running(pid) {
		t.Fatalf("plugin %d does not run: %v", pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the host was not killed")
	}
	eventually(t, "the end of the plugin", func() bool { return !running(pid) })
}

// TestTheLifelineAloneEndsABarePlugin, without the system's help, also during a call:
// the kernel would hang for ever.
func TestTheLifelineAloneEndsABarePlugin(t *testing.T) {
	for _, site := range []string{"", "hang once"} {
		calls := counted(t)
		p := openBare(t, quiet(Options{}))
		life := p.proc.life
		var wg sync.WaitGroup
		wg.Go(func() {
			if site != "" {
				eventually(t, "the call", func() bool { return calls(site) == 1 })
			}
			if err := life.conn.CloseWrite(); err != nil {
				t.Error(err)
			}
			eventually(t, "the end of the plugin", func() bool {
				select {
				case <-life.gone:
					return true
				default:
					return false
				}
			})
		})
		if site != "" {
			p.mustForward(t, site)
		}
		wg.Wait()
	}
}

func TestABarePluginEndsByItself(t *testing.T) {
	p := openBare(t, quiet(Options{}))
	proc := p.proc
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if s := proc.cmd.ProcessState; s == nil || !s.Exited() || s.ExitCode() != 0 {
		t.Errorf("it ended with %v, want an exit of its own", s)
	}
}
