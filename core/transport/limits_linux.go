package transport

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A host limits what a plugin's process may use against mistakes: a process can leave its
// processors for others, and get memory of kinds that its limit does not count.
const hasLimits = true

// limitMemory limits the private memory that a process can write: its heap, and whatever it
// maps that neither a file nor another process shares. Regions of tensors are not
// counted. A program that needs more is refused it, of which most die.
func limitMemory(pid int, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	most := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &most, nil); err != nil {
		return fmt.Errorf("transport: limit the memory of process %d: %w; "+
			"where the system refuses that, go on without --plugin-memory", pid, err)
	}
	return nil
}

// limitProcessors restricts the calling thread to its first processors, and with it every
// process that it starts. Undo gives the thread all of them back.
func limitProcessors(n int) (undo func() error, err error) {
	if n == 0 {
		return func() error { return nil }, nil
	}
	var all, few unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("transport: processors of this thread: %w", err)
	}
	for cpu := 0; few.Count() < min(n, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			few.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &few); err != nil {
		return nil, fmt.Errorf("transport: limit the processors of a plugin: %w; "+
			"where the system refuses that, go on without --plugin-cpus", err)
	}
	return func() error { return unix.SchedSetaffinity(0, &all) }, nil
}
