package transport

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDropImageGivesBackFilePages runs on after its own code has been dropped.
func TestDropImageGivesBackFilePages(t *testing.T) {
	before := filePages(t)
	dropImage()
	if after := filePages(t); after >= before {
		t.Errorf("%d KiB of files in memory, %d before", after, before)
	}
}

// filePages returns the resident KiB of this process that come from files.
func filePages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("no RssFile in /proc/self/status")
	return 0
}
