package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestForgottenTensorsLeaveMemoryAndCanBeReadAgain reads a tensor of 16 MiB and looks at
// how much of files the process has in memory.
func TestForgottenTensorsLeaveMemoryAndCanBeReadAgain(t *testing.T) {
	const size = 16 << 20
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := Write(path, []Named{{"a", random(core.Float32, 3)}, {"b", random(core.Float32, size/4)}, {"c", random(core.Float32, 5)}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := map[string][]byte{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		read[name] = bytes.Clone(x.Data)
	}
	before := filesInMemory(t)
	for _, name := range append(f.Names(), "no tensor") {
		f.Forget(name)
	}
	if less := before - filesInMemory(t); less < size*3/4 {
		t.Errorf("%d bytes less are in memory after %d were forgotten", less, size)
	}
	for name, want := range read {
		if x, _ := f.Tensor(name); !bytes.Equal(x.Data, want) {
			t.Errorf("%s has changed", name)
		}
	}
}

// filesInMemory returns the bytes of mapped files that the process has in memory.
func filesInMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nRssFile:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
