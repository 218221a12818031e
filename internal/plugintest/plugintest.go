// Package plugintest builds the project's plugins for tests that run them for real.
package plugintest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/testdata"
)

var build = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tune-plugins-") })

var compiled sync.Once

// Dir returns a folder with every plugin of the project, built once per test binary.
// Main removes it.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	compiled.Do(func() { Compile(t, dir, "./plugins/npu_...") })
	return dir
}

// Compile builds packages of this module into dir.
func Compile(t testing.TB, dir string, packages ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...)
	cmd.Dir = testdata.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %v: %v\n%s", packages, err, out)
	}
}

// Scan opens every plugin of the project, and closes them after the test.
func Scan(t testing.TB, opts transport.Options) *core.Registry {
	t.Helper()
	if opts.CacheDir == "" {
		opts.CacheDir = "off"
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
	if dir, err := build(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}
