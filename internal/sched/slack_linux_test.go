package sched_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/sched"
)

// coarseHelper has TestMain be a program that starts coarsely.
const coarseHelper = "SCHED_TEST_COARSE_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(coarseHelper) != "" {
		sched.Coarsely()
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		fmt.Println(os.Getpid(), slack, err, len(os.Args), strings.Contains(strings.Join(os.Environ(), " "), "TUNE_"))
		return
	}
	os.Exit(m.Run())
}

// TestAProgramStartsAgainCoarsely wants the same process, with its arguments and no trace
// in the environment.
func TestAProgramStartsAgainCoarsely(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || before >= 5e6 {
		t.Skip("timers are coarse already, or cannot be: ", before, err)
	}
	cmd := exec.Command(os.Args[0], "one", "two")
	cmd.Env = []string{coarseHelper + "=1"}
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("%d 5000000 <nil> 3 false\n", cmd.Process.Pid); err != nil || string(out) != want {
		t.Errorf("output %q, %v; want %q", out, err, want)
	}
}
