package transport

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAThreadThatCannotBeRestoredEnds: who starts a plugin changes its thread, which no other
// goroutine may get unless that could be undone. The plugin, which ends with the thread, says
// goodbye before.
func TestAThreadThatCannotBeRestoredEnds(t *testing.T) {
	path, thread := pluginPath(t, "plugin"), os.Getpid()
	o := quiet(Options{}).withDefaults()
	o.how.coarseTimers = func() func() error {
		thread = unix.Gettid()
		return func() error { return syscall.EPERM }
	}
	checksum := checksumOf(t, path)
	for thread == os.Getpid() { // the first thread is there until the program ends
		p, err := startProcess(context.Background(), o, path, checksum)
		if err != nil {
			t.Fatal(err)
		}
		p.close()
		if s := p.cmd.ProcessState; s == nil || !s.Success() {
			t.Errorf("the plugin ended with %v", s)
		}
	}
	eventually(t, "the thread's end", func() bool {
		_, err := os.Stat(fmt.Sprint("/proc/self/task/", thread))
		return err != nil
	})
}
