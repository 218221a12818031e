//go:build !linux

package transport

import (
	"errors"

	"github.com/seed98097648/tune/core/kerneltest"
)

// native is the portable platform: nothing better is known here.
var native = portable

func nativeLacks() error { return errNoDoorbell }

const hasLimits = false

func limitMemory(int, int64) error { return nil }

func limitProcessors(int) (undo func() error, err error) {
	return func() error { return nil }, nil
}

// errNoHoldings is why it is not known what a process has.
var errNoHoldings = errors.New("what a process has, and which it has started, is known on Linux only")

func holdings(int) (kerneltest.Holdings, error) { return kerneltest.Holdings{}, errNoHoldings }

func relatives(int, string) ([]Left, error) { return nil, errNoHoldings }

// isStopped reports whether a process was stopped by a signal: nothing tells here.
func isStopped(int) bool { return false }
