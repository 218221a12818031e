package main

import (
	"fmt"
	"sync"
	"time"
)

// progressEvery is how often verify says what it is doing, if that takes so long.
const progressEvery = 10 * time.Second

// verifyProgress says now and then which case is being run, from its own goroutine: one case
// of a slow kernel can take long.
type verifyProgress struct {
	mu   sync.Mutex
	what string
	done chan struct{}
	wait sync.WaitGroup
}

// newVerifyProgress starts to write notes about a kernel; stop ends that.
func (a *app) newVerifyProgress(kernel string, every time.Duration) *verifyProgress {
	p := &verifyProgress{what: "asking what it supports", done: make(chan struct{})}
	p.wait.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
				p.mu.Lock()
				what := p.what
				p.mu.Unlock()
				a.note("verifying %s: %s", kernel, what)
			}
		}
	})
	return p
}

// on is what kerneltest.Options.Progress takes.
func (p *verifyProgress) on(kind string, i, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf("%s, case %d of %d", kind, i, n)
}

func (p *verifyProgress) stop() {
	close(p.done)
	p.wait.Wait()
}
