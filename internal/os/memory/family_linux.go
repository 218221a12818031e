package memory

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// OfFamily returns the bytes of memory that a process and its descendants have, pages that they share counted once; 0
// if any of them cannot be read.
func OfFamily(pid int) (total int64) {
	for _, pid := range family(pid, parents()) {
		n := proportional(pid)
		if n == 0 {
			return 0
		}
		total += n
	}
	return total
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
