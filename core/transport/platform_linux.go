package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/checksum"
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
	state:        checksum.StateOf,
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

// firstHeld returns the lowest number of the descriptor of an executable that is to be
// started. Those below are replaced in the new process: the first ones by what it inherits,
// and a few after the highest of what it inherits, which Go's runtime moves there for a
// moment. So it is far above what is open otherwise, as far as the limit of open files lets it.
func firstHeld() int {
	const least, most = 64, 1 << 13 // the kernel's table of files is as long as the highest number
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(min(max(limit.Cur/2, least), most))
}

// openHeld opens a file for reading and, where the file system and the owner of the file
// allow it, keeps others from writing to it until it is closed: they wait. From when it
// is started on, the system refuses them.
func openHeld(path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe that lies there would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// Where no process may have so many files, it stays where it is: see runnable.
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstHeld()); err == nil {
		f.Close()
		f = os.NewFile(uintptr(fd), path)
	}
	checksum.Hold(f)
	return f, nil
}

// runnable returns a name of the open file that keeps its meaning in a process just
// forked, until its program is replaced; or the path, where there is no such name.
func runnable(f *os.File, path string) string {
	if int(f.Fd()) < firstHeld() {
		return path
	}
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(name); err != nil {
		return path // no /proc here
	}
	return name
}

// A host limits what a plugin's process may use against mistakes: a process can leave its
// processors for others, and get memory of kinds that its limit does not count.
const hasLimits = true

// limitMemory limits the private memory that a process can write: its heap, and whatever it
// maps that neither a file nor another process shares. Regions of tensors are not
// counted. A program that needs more does not get it, and mostly dies of that.
func limitMemory(pid int, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	most := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &most, nil); err != nil {
		return fmt.Errorf("transport: limit the memory of process %d: %w; "+
			"where the system refuses that, go on without transport.Options.MaxMemory", pid, err)
	}
	return nil
}

// limitProcessors restricts the calling thread to its first processors, and with it every
// process that it starts. Undo gives the thread all of them back.
func limitProcessors(n int) (undo func() error, err error) {
	if n == 0 {
		return func() error { return nil }, nil
	}
	var all, few unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("transport: processors of this thread: %w", err)
	}
	for cpu := 0; few.Count() < min(n, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			few.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &few); err != nil {
		return nil, fmt.Errorf("transport: limit the processors of a plugin: %w; "+
			"where the system refuses that, go on without transport.Options.MaxCPUs", err)
	}
	return func() error { return unix.SchedSetaffinity(0, &all) }, nil
}
