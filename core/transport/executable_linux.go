package transport

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// firstHeld is the lowest number of the descriptor of an executable that is to be
// started: those below are replaced in the new process by what it inherits.
const firstHeld = 64

// openHeld opens a file for reading and, where the file system and the owner of the file
// allow it, keeps others from writing to it until it is closed: they wait. From when it
// is started on, the system refuses them.
func openHeld(path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe that lies there would wait for its writer.
	low, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, firstHeld)
	if err != nil {
		fd = low // no process may have so many files here: see runnable
	} else {
		unix.Close(low)
	}
	// Best effort: a lease is refused to who is not the owner, by some file systems, and
	// while somebody writes, when starting the file is refused as well.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return os.NewFile(uintptr(fd), path), nil
}

// runnable returns a name of the open file that keeps its meaning in a process just
// forked, until its program is replaced; or the path, where there is no such name.
func runnable(f *os.File, path string) string {
	if f.Fd() < firstHeld {
		return path
	}
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(name); err != nil {
		return path // no /proc here
	}
	return name
}
