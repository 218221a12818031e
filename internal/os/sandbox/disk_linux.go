package sandbox

import (
	"syscall"
	"testing"
)

// FullDisk runs a test again in a process of its own, in which limit says how many bytes a file that is written to may
// have, and lift ends that. The limit is of all files of a process: "go test" has a test binary write down which files
// it reads, and may have it print to one, and fails a test binary that cannot.
func FullDisk(t *testing.T, test func(t *testing.T, limit func(size uint64), lift func())) {
	t.Helper()
	if cmd := Again(t); cmd != nil {
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(size uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
			t.Error(err)
		}
	}
	lift := func() { limit(old.Cur) }
	t.Cleanup(lift)
	test(t, limit, lift)
}
