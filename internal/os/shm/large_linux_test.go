package shm

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSettleKeepsWhatIsThere: also where the first and the last large page are in use in part, and for
// a view, which sees large pages as the region does.
func TestSettleKeepsWhatIsThere(t *testing.T) {
	if Anonymous() != nil {
		t.Skip(Anonymous())
	}
	r := newRegion(t, 4*largePage+1<<16, HostOnly)
	v, err := Map(r.File(), r.Size(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	data := r.Bytes()[largePage/2 : 3*largePage+largePage/2]
	for i := range data {
		data[i] = byte(i * 7 >> 8)
	}
	before := bytes.Clone(data)
	if err := unix.Madvise(r.Bytes()[largePage:2*largePage], unix.MADV_COLLAPSE); err != nil {
		t.Skip("this system makes no large pages of shared memory: ", err)
	}
	Settle()
	if !bytes.Equal(data, before) || !bytes.Equal(v.Bytes()[largePage/2:][:len(before)], before) {
		t.Error("the content has changed")
	}
	for name, b := range map[string][]byte{"region": r.Bytes(), "view": v.Bytes()} {
		if got := largeBytes(t, b); got != "4096 kB" { // the two pages that are whole
			t.Errorf("the %s has %s in large pages", name, got)
		}
	}
	if got := r.Bytes()[len(r.Bytes())-1]; got != 0 {
		t.Errorf("untouched memory has %d", got)
	}
}

// largeBytes returns how much of a mapping the system has mapped in large pages.
func largeBytes(t *testing.T, b []byte) string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	lines, here := bufio.NewScanner(f), false
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), fmt.Sprintf("%x-", address(b))) {
			here = true
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "ShmemPmdMapped:"); ok && here {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatal("the mapping is not listed")
	return ""
}
