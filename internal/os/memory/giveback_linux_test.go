package memory

import (
	"os"
	"slices"
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

// TestPagesThatTheLoaderHasWrittenStay has the mappings of a position-independent program.
func TestPagesThatTheLoaderHasWrittenStay(t *testing.T) {
	const smaps = `1000-2000 r-xp 00000000 fe:00 1 /bin/plugin
Rss:                   4 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me sd
2000-3000 r--p 00001000 fe:00 1 /bin/plugin
Rss:                   4 kB
Anonymous:             4 kB
Swap:                  0 kB
3000-4000 r--p 00002000 fe:00 1 /bin/plugin
Anonymous:             0 kB
Swap:                  4 kB
4000-5000 rw-p 00003000 fe:00 1 /bin/plugin
Anonymous:             0 kB
5000-6000 rw-p 00000000 00:00 0
Anonymous:             4 kB
6000-7000 r--p 00000000 fe:00 2 /lib/other
Anonymous:             0 kB
7000-9000 r--p 00004000 fe:00 1 /bin/plugin
Anonymous:             0 kB
Swap:                  0 kB
`
	want := []mapping{{0x1000, 0x2000}, {0x7000, 0x9000}}
	if got := unwritten(strings.NewReader(smaps), "/bin/plugin"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}
