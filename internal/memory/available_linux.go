// Package memory tells how much memory there is.
package memory

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Available returns the bytes of memory that a new process can have: what the machine
// can make free, or what the limit of its control group leaves, if that is less. It is 0
// where nothing tells.
func Available() int64 {
	free := field("/proc/meminfo", "MemAvailable:") << 10
	limit, ok := number("/sys/fs/cgroup/memory.max")
	used, ok2 := number("/sys/fs/cgroup/memory.current")
	if !ok || !ok2 {
		return free
	}
	// What files have left in memory counts as used, but makes way.
	left := max(limit-used+field("/sys/fs/cgroup/memory.stat", "inactive_file "), 1)
	if free == 0 {
		return left
	}
	return min(free, left)
}

// OfProcess returns the bytes of memory that a process has: what of its mappings is in
// memory, shared with others or not, and what of them is in swap.
func OfProcess(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	if _, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("memory of a process: %w", err)
	}
	return (field(path, "Rss:") + field(path, "Swap:")) << 10, nil
}

// field returns the number behind a name in a file of lines, see proc(5); 0 without one.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
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

// number reads a file of a control group, which holds a number, or "max" for no limit.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
