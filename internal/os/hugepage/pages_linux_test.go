package hugepage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLargePagesAreAskedFor looks at the flags of the mapping.
func TestLargePagesAreAskedFor(t *testing.T) {
	probe, err := mapPages(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapPages(probe)
	if err := unix.Madvise(probe, unix.MADV_HUGEPAGE); err != nil {
		t.Skip("this system has no large pages: ", err)
	}
	var m Memory
	b, err := m.Alloc(2 * pageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free(b)
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("this system does not say what is mapped: ", err)
	}
	at, ours := uintptr(unsafe.Pointer(&b[0])), false
	for line := range strings.Lines(string(smaps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			ours = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && ours {
			if !slices.Contains(strings.Fields(flags), "hg") {
				t.Errorf("the memory has the flags %s", flags)
			}
			return
		}
	}
	t.Skip("this system does not say with which flags memory is mapped")
}
