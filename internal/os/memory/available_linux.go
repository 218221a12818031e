// Package memory tells how much memory there is.
package memory

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Available returns the bytes of memory that this process and those that it starts can have: what the machine
// can make free, or what the limits of its control groups or of its addresses (RLIMIT_AS) leave, if that is less.
// It is 0 where nothing tells.
func Available() int64 { return available(os.DirFS("/")) }

// Total returns the bytes of memory that the machine has, with its swap, or that the limits
// of this process's control groups allow, if that is less. It is 0 where nothing tells.
func Total() int64 {
	if n := total(os.DirFS("/")); n > 0 {
		return n
	}
	var info syscall.Sysinfo_t // no /proc
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return (int64(info.Totalram) + int64(info.Totalswap)) * int64(info.Unit)
}

// OfProcess returns the bytes of memory that a process has: what of its mappings is in
// memory, shared with others or not, and what of them is in swap.
func OfProcess(pid int) (int64, error) {
	path := fmt.Sprintf("proc/%d/smaps_rollup", pid)
	root := os.DirFS("/")
	if _, err := fs.Stat(root, path); err != nil {
		return 0, fmt.Errorf("memory of a process: %w", err)
	}
	return (field(root, path, "Rss:") + field(root, path, "Swap:")) << 10, nil
}

// proportional returns the proportional set size of a process, in which each page is divided
// by the number of processes that map it, see proc(5); 0 if it is unknown.
func proportional(pid int) int64 {
	return field(os.DirFS("/"), fmt.Sprintf("proc/%d/smaps_rollup", pid), "Pss:") << 10
}

func available(root fs.FS) int64 {
	free := field(root, "proc/meminfo", "MemAvailable:") << 10
	for _, g := range limitedGroups(root) {
		// What files have left in memory counts as used, but makes way.
		left := max(g.limit-g.used+g.files, 1)
		if free == 0 || left < free {
			free = left
		}
	}
	if limit := addresses(root); limit > 0 {
		left := max(limit-field(root, "proc/self/status", "VmSize:")<<10, 1)
		if free == 0 || left < free {
			free = left
		}
	}
	return free
}

// addresses returns the most bytes of address space that this process may have; 0 for no limit.
func addresses(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/self/limits")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max address space"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseInt(f[0], 10, 64) // or unlimited
				return n
			}
		}
	}
	return 0
}

func total(root fs.FS) int64 {
	swap := field(root, "proc/meminfo", "SwapTotal:") << 10
	all := field(root, "proc/meminfo", "MemTotal:")<<10 + swap
	for _, g := range limitedGroups(root) {
		most := g.limit + min(g.swap, swap)
		if all == 0 || most < all {
			all = most
		}
	}
	return all
}

// field returns the number behind a name in a file of lines, see proc(5); 0 without one.
func field(root fs.FS, path, name string) int64 {
	text, err := fs.ReadFile(root, path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n
		}
	}
	return 0
}
