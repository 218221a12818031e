package sched

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"
)

// TestAThreadThatCannotBeFreedEnds: another goroutine would run on it, kept off a core for ever.
// The number of the thread is spoiled, so that the system refuses to free it.
func TestAThreadThatCannotBeFreedEnds(t *testing.T) {
	id := os.Getpid() // the first thread's number, which is there until the process ends
	for id == os.Getpid() {
		ids := make(chan int)
		go func() {
			th := ThisThread()
			ids <- th.id
			th.id, th.off = -1, 0
			th.Free()
		}()
		id = <-ids
	}
	path := fmt.Sprint("/proc/self/task/", id)
	for range 100_000 {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("thread %d is still there", id)
}
