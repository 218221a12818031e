//go:build !linux

package memory

import (
	"errors"
	"fmt"
)

// Available returns 0: this system is not asked.
func Available() int64 { return 0 }

// Total returns 0: this system is not asked.
func Total() int64 { return 0 }

// OfProcess returns an error: this system is not asked.
func OfProcess(int) (int64, error) {
	return 0, fmt.Errorf("memory of a process: %w on this system", errors.ErrUnsupported)
}
