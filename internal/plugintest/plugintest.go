// Package plugintest builds the project's plugins for tests that run them for real.
package plugintest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/testdata"
)

// root holds all that the tests of a binary share.
var root = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tune-plugins-") })

var compiled sync.Once

// Dir returns a folder with every plugin of the project, built once per test binary.
// Main removes it.
func Dir(t testing.TB) string {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "plugins")
	compiled.Do(func() { Compile(t, dir, "./plugins/npu_...") })
	return dir
}

// builtVariable names the environment variable with a folder that has the executables of ./plugins/... of this tree
// already, and may have those of ./cmd/..., as .ci/run has: linking them takes each package that has tests with
// plugins some ten seconds.
const builtVariable = "TUNE_TEST_BUILT"

// Compile builds packages of this module into dir. No test needs what debuggers do.
func Compile(t testing.TB, dir string, packages ...string) {
	t.Helper()
	to := dir + string(filepath.Separator)
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", to}, packages...)...)
	if built := builtOf(packages); built != nil {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "windows" {
			copyAll(t, built, dir)
			return
		}
		// By another process: this one could start a third that has an executable open for writing, which then cannot run.
		cmd = exec.Command("cp", append(built, to)...)
	}
	cmd.Dir = testdata.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func copyAll(t testing.TB, files []string, dir string) {
	t.Helper()
	for _, from := range files {
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(from)), content, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// builtOf returns the executables of packages, which are patterns, where they are all built already.
func builtOf(packages []string) (built []string) {
	dir := os.Getenv(builtVariable)
	for _, p := range packages {
		name, ok := strings.CutPrefix(p, "./plugins/")
		if !ok {
			name, ok = strings.CutPrefix(p, "./cmd/")
		}
		found, err := filepath.Glob(filepath.Join(dir, strings.Replace(name, "...", "*", 1)))
		if dir == "" || !ok || err != nil || found == nil {
			return nil
		}
		built = append(built, found...)
	}
	return built
}

// Scan opens every plugin of the project, and closes them after the test. Each use of a kernel is verified once over
// each transport, and not by every test.
func Scan(t testing.TB, opts transport.Options) *core.Registry {
	t.Helper()
	if opts.CacheDir == "" {
		opts.CacheDir = filepath.Join(filepath.Dir(Dir(t)), fmt.Sprintf("verified, portable %v", opts.Portable))
	}
	reg, err := core.ScanAllKernels(context.Background(), []string{Dir(t)}, opts.Open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, f := range reg.Listing() {
		if f.Err != nil {
			t.Fatalf("%s: %v", f.Path, f.Err)
		}
	}
	return reg
}

// Memory returns memory that plugins can read, closed after the test.
func Memory(t testing.TB) core.Memory {
	t.Helper()
	mem, err := transport.NewMemory("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return mem
}

// Main runs the tests of a package that uses Dir and cleans up: call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if dir, err := root(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}
