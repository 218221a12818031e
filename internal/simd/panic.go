package simd

import (
	"fmt"
	"runtime/debug"
)

// Panic is what a panic in a worker is raised as in the caller. By then the worker's stack is
// gone and the caller's does not show where it happened, so that it is kept here.
type Panic struct {
	Value any // what the worker panicked with
	Stack []byte
}

// Error has the stack too: it is what the Go runtime prints of a panic that nobody recovers.
func (p *Panic) Error() string {
	return fmt.Sprintf("%v\n\nin a part of a parallel loop:\n%s", p.Value, p.Stack)
}

// Cause returns the value without the stack, for a message of one line. Who recovers need not
// import this package for it.
func (p *Panic) Cause() any { return p.Value }

// caught keeps a panic and, as it is called while that unwinds, its stack. One of a loop inside
// a loop has both already.
func caught(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{value, debug.Stack()}
}
