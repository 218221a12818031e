package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// progressEvery is how often verify says what it is doing, if that takes so long.
const progressEvery = 10 * time.Second

// tellOfCases says every so often which case of a kernel is being run, which on hears of, until
// stop is called. It needs no progress for that: one case of a slow kernel can take long.
func (a *app) tellOfCases(kernel string, every time.Duration) (on func(kind string, i, n int), stop func()) {
	var what atomic.Value
	what.Store("asking what it supports")
	stop = meanwhile(func(done <-chan struct{}) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				a.note("verifying %s: %s", kernel, what.Load())
			}
		}
	})
	return func(kind string, i, n int) { what.Store(fmt.Sprintf("%s, case %d of %d", kind, i, n)) }, stop
}
