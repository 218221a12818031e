package kerneltest_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestProcessesThatShareScratchAreFound: as those that use a file or a memory of one name. One after the other, they
// are right.
func TestProcessesThatShareScratchAreFound(t *testing.T) {
	var mu sync.Mutex
	var shared []byte
	scratch := func(run runFunc, c *core.Call) error {
		err := run(c)
		mu.Lock()
		shared = slices.Clone(c.Out[0].Data)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		copy(c.Out[0].Data, shared)
		return err
	}
	process := func(bug func(runFunc, *core.Call) error) core.Kernel {
		return &hoarder{Kernel: faulty{reference.Single(core.SwiGLU), bug}, keeps: func(*core.Call) int64 { return 0 }}
	}
	right := func(run runFunc, c *core.Call) error { return run(c) }
	for name, tt := range map[string]struct {
		bug  func(runFunc, *core.Call) error
		want kerneltest.Status
	}{"scratch of both": {scratch, kerneltest.Failed}, "none": {right, kerneltest.OK}} {
		r := kerneltest.Repeated(t.Context(), process(tt.bug), process(tt.bug), facts[core.SwiGLU], 100)
		if r.Status != tt.want {
			t.Errorf("%s: %s, want %s: %v", name, r.Status, tt.want, r.Err())
		}
	}
}
