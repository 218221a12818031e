package transport

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const hasLimits = true

// memory limits the private memory that a process can write: its heap, and whatever it
// maps that neither a file nor another process shares. Regions of tensors are not
// counted. A program that needs more is refused it, of which most die.
func (l limits) memory(pid int) error {
	if l.bytes == 0 {
		return nil
	}
	most := unix.Rlimit{Cur: uint64(l.bytes), Max: uint64(l.bytes)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &most, nil); err != nil {
		return fmt.Errorf("transport: limit the memory of process %d: %w; where the system refuses that, go on without transport.Options.MaxMemory", pid, err)
	}
	return nil
}

// processors restricts the calling thread to its first processors, and with it every
// process that it starts. Undo gives the thread all of them back.
func (l limits) processors() (undo func() error, err error) {
	if l.cpus == 0 {
		return func() error { return nil }, nil
	}
	var all, few unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("transport: processors of this thread: %w", err)
	}
	for cpu := 0; few.Count() < min(l.cpus, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			few.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &few); err != nil {
		return nil, fmt.Errorf("transport: limit the processors of a plugin: %w; where the system refuses that, go on without transport.Options.MaxCPUs", err)
	}
	return func() error { return unix.SchedSetaffinity(0, &all) }, nil
}
