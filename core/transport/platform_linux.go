package transport

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sched"
	"github.com/seed98097648/tune/internal/os/shm"
)

// native is the platform of Linux: memory without a file that the system guards, a
// doorbell, and programs started from the open file.
var native = platform{
	region: shm.New,
	doorbell: func(life *lifeline, spin time.Duration) (link, *os.File, error) {
		return newDoorbell(life, spin)
	},
	open:         openHeld,
	runnable:     runnable,
	isolate:      isolateToDeath,
	coarseTimers: sched.CoarseTimers,
	awaitEnd:     awaitEnd,
}

// nativeLacks says what the native platform needs and cannot have here, as in a sandbox.
func nativeLacks() error { return shm.Anonymous() }

// isolateToDeath is isolate, and has the operating system end the plugin when the thread
// that started it does, should the plugin be too busy to notice. See process.start.
func isolateToDeath(cmd *exec.Cmd) {
	isolate(cmd)
	if canSetDeathSignal() {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}

// canSetDeathSignal asks for the signal that this thread has already: a sandbox that
// refuses that would let no process start that asks for another.
func canSetDeathSignal() bool {
	var signal int32
	return unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0) == nil &&
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(signal), 0, 0, 0) == nil
}

// awaitEnd waits until the process has ended, and ends the rest of its process group:
// before the process is forgotten, because its number could be another's from then on.
func awaitEnd(cmd *exec.Cmd) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = cmd.Cancel() // nobody may be left
	return cmd.Wait()
}
