// Package sched keeps a program and its plugins, which share the cores, out of each
// other's way.
package sched

import (
	"sync/atomic"
	"time"
)

// Slice is how long a thread sleeps at a time that waits for what comes within milliseconds: for a task, or for
// another process's answer.
const Slice = 5 * time.Millisecond

// rests counts the calls of Rest.
var rests atomic.Uint32

// Rest tells threads of this process that stay awake in case there is more to do that
// another process is to have the cores now.
func Rest() { rests.Add(1) }

// Rests returns how often Rest has been called: who waits actively for work should give
// up when it changes.
func Rests() uint32 { return rests.Load() }
