package sched_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/os/sched"
)

func TestRestIsSeenByWhoeverWaits(t *testing.T) {
	before := sched.Rests()
	sched.Rest()
	if sched.Rests() == before {
		t.Error("Rest changed nothing")
	}
}

func TestYieldComesBack(t *testing.T) {
	var stop atomic.Bool
	time.AfterFunc(10*time.Millisecond, func() { stop.Store(true) })
	for !stop.Load() {
		sched.Yield()
	}
}
