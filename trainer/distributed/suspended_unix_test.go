//go:build unix

package distributed

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// TestASuspendedJobGoesOn stops a process with two ranks for longer than one of them may wait for the other: how long
// the ranks stand still themselves does not count.
func TestASuspendedJobGoesOn(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	cmd := sandbox.Again(t)
	if cmd == nil {
		suspended(t, limit)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process does not stop: %v, %v", status, err)
	}
	time.Sleep(limit + limit/4)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// suspended stops this process while one of its ranks waits for the other.
func suspended(t *testing.T, limit time.Duration) {
	waits := make(chan struct{})
	ranks(t, []string{"a", "b"}, func(w *World) error {
		w.options = Options{Timeout: limit, Fatal: func(err error) { panic(err) }}
		if w.Rank() == 0 {
			close(waits)
		} else {
			<-waits
			time.Sleep(limit / 20)
			if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(limit / 4) // in which the other would give up
		}
		_, err := w.Exchange("whether the ranks are there", nil)
		return err
	})
}
