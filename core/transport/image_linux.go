package transport

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// imageCalls bounds the calls after which a plugin gives back the memory of its program:
// each that is a power of two, as kernels are bound and verified among the first ones.
const imageCalls = 1 << 10

// rest gives back the memory that a plugin needed to start, to bind and to verify.
func rest() {
	debug.FreeOSMemory()
	dropImage()
}

// dropImage takes the pages of the program's file, which are never written, out of this
// process's memory. Most of them have served once, at the start and in the handshake:
// some 10 MiB for each plugin. Those that are still needed come back from the system's
// cache of the file on first use.
func dropImage() {
	exe, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// "from-to rwxp offset device inode path", see proc(5).
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[5] != exe || strings.Contains(f[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		lo, err1 := strconv.ParseUint(from, 16, 64)
		hi, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil {
			unix.Syscall(unix.SYS_MADVISE, uintptr(lo), uintptr(hi-lo), unix.MADV_DONTNEED)
		}
	}
}
