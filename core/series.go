package core

import (
	"context"
	"time"
)

// Step is a call, and the kernel that is to run it.
type Step struct {
	Kernel Kernel
	Call   *Call
}

// Series runs calls of kernels that share a process one behind the other, so that the process is asked once, and nobody
// waits for their caller in between.
type Series interface {
	// RunSeries does what Run of one step after the other does, up to the first that fails, whose place
	// it returns with the error; without one, it returns how many there are. Each step has a Call of its own. Outputs of a
	// call may be inputs of calls behind it. Took, unless it is nil, is told how long each took: all of them together
	// as long as RunSeries.
	RunSeries(ctx context.Context, steps []Step, took func(i int, d time.Duration)) (failed int, err error)
}

// Serial is an optional ability of a kernel: its calls can be run in a series.
type Serial interface {
	// Series returns what runs the call in a series, and the kernel that it is to be told there; nil if the call is to
	// be run by itself. It is the same, compared with ==, for all kernels of a process.
	Series(c *Call) (Series, Kernel)
}

// SeriesOf returns what runs a kernel's call in a series, and the kernel of its Step; nil if it is to be run by
// itself.
func SeriesOf(k Kernel, c *Call) (Series, Kernel) {
	if s, ok := k.(Serial); ok {
		return s.Series(c)
	}
	return nil, nil
}
