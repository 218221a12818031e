//go:build !linux

package memory

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Available returns 0: this system is not asked.
func Available() int64 { return 0 }

// GiveBack gives back the memory that this process has needed to get ready, and may not need again: garbage.
func GiveBack() { debug.FreeOSMemory() }

// Total returns 0: this system is not asked.
func Total() int64 { return 0 }

// Process measures the memory of this process.
type Process struct{}

// NewProcess returns a Process. The caller closes it.
func NewProcess() *Process { return &Process{} }

// Resident returns 0: this system is not asked.
func (*Process) Resident() int64 { return 0 }

// Close does nothing.
func (*Process) Close() error { return nil }

// OfProcess returns an error: this system is not asked.
func OfProcess(pid int) (int64, error) {
	return 0, fmt.Errorf("memory: of process %d: %w", pid, errors.ErrUnsupported)
}
