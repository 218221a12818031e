package memory

import (
	"bufio"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// GiveBack gives back the memory that this process has needed to get ready, and may not need again: garbage, and the
// pages of its program that have served once.
func GiveBack() {
	debug.FreeOSMemory()
	dropImage()
}

// dropImage takes the pages of the program's file, which are never written, out of this
// process's memory. Most of them have served once, at the start and, of a plugin, in the handshake:
// some 10 MiB for each plugin, and 30 for the host. Those that are still needed come back from the system's
// cache of the file on first use.
func dropImage() {
	exe, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, m := range unwritten(maps, exe) {
		syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

// mapping is a part [from, to) of the address space.
type mapping struct{ from, to uintptr }

// unwritten finds, in the text of /proc/self/smaps, the read-only mappings of a file that have
// the file's own contents. Others that are read-only now were written before: the loader puts
// the addresses of a position-independent program into its tables, and protects them only
// then. Dropped, they would come back without these.
func unwritten(smaps io.Reader, file string) []mapping {
	var all []mapping
	ours := false // the last of all is the mapping that the lines are about
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		// "from-to rwxp offset device inode path", then "Name: n kB" or "Name: ...", see proc(5): two dozen of these.
		line := lines.Text()
		if name, _, ok := strings.Cut(line, ":"); ok && name != "Anonymous" && name != "Swap" &&
			!strings.Contains(name, " ") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if m, ok := between(f[0]); ok {
			if ours = len(f) == 6 && f[5] == file && !strings.Contains(f[1], "w"); ours {
				all = append(all, m)
			}
			continue
		}
		if ours && (f[0] == "Anonymous:" || f[0] == "Swap:") && f[1] != "0" {
			all, ours = all[:len(all)-1], false
		}
	}
	return all
}

// between reads "from-to".
func between(s string) (mapping, bool) {
	from, to, _ := strings.Cut(s, "-")
	lo, err1 := strconv.ParseUint(from, 16, 64)
	hi, err2 := strconv.ParseUint(to, 16, 64)
	return mapping{uintptr(lo), uintptr(hi)}, err1 == nil && err2 == nil
}
