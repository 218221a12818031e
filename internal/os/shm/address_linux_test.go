package shm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// allocLimited takes memory in an address space of 2 GiB, Go's own included, until there is
// none.
func allocLimited() []string {
	if err := sandbox.LimitAddresses(2 << 30); err != nil {
		return []string{"limit: " + err.Error()}
	}
	p := NewPool("tight", 0, HostOnly, New)
	for n := 0; ; n += 16 << 20 {
		if _, err := p.Alloc(16 << 20); err != nil {
			return []string{fmt.Sprint("enough: ", n >= 256<<20), "error: " + err.Error()}
		}
	}
}

// TestALimitedAddressSpaceIsUsed: a region of fixed size would not fit, or leave much of it.
func TestALimitedAddressSpaceIsUsed(t *testing.T) {
	got := child(t, "limited", nil)
	for _, want := range []string{"no room in the memory tight for 16 MiB", "limited to 2 GiB: ulimit -v"} {
		if got["enough"] != "true" || !strings.Contains(got["error"], want) {
			t.Errorf("child says %v, want %q", got, want)
		}
	}
}
