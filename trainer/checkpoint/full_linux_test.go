package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"golang.org/x/sys/unix"
)

// TestDiskReallyFull repeats the disk-full test on a file system of 64 KiB. Mounting
// one takes privileges that most users do not have.
func TestDiskReallyFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	path := writeImage(t, filepath.Join(dir, "m.safetensors"), []byte("old"))
	for what, err := range map[string]error{
		"tensors": Write(path, []Named{{Name: "w", Tensor: random(core.Float32, 1<<15)}}, nil),
		"text":    WriteFileAtomic(path, make([]byte, 1<<17), 0o644),
	} {
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: error %v, want %v", what, err, unix.ENOSPC)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Error("the old file is gone")
	}
	if names := folderNames(t, dir); !slices.Equal(names, []string{"m.safetensors"}) {
		t.Errorf("left over: %q", names)
	}
}
