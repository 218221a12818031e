package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// footprint returns the bytes of memory that this process and its descendants, the
// plugins, have in use after a garbage collection, pages that they share counted once;
// 0 if any of them cannot be read.
func footprint() int64 {
	debug.FreeOSMemory()
	total := int64(0)
	for _, pid := range family(os.Getpid(), parents()) {
		n := proportional(pid)
		if n == 0 {
			return 0
		}
		total += n
	}
	return total
}

// proportional returns the proportional set size of a process, each page divided by the
// number of processes that map it; see proc(5), smaps_rollup.
func proportional(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// parents returns the parent of every running process.
func parents() map[int]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	of := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid ...", where the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[0]) != "Z" {
			of[pid], _ = strconv.Atoi(string(fields[1]))
		}
	}
	return of
}

// family returns pid and its descendants.
func family(pid int, parents map[int]int) []int {
	all := []int{pid}
	for child, parent := range parents {
		if parent == pid {
			all = append(all, family(child, parents)...)
		}
	}
	return all
}
