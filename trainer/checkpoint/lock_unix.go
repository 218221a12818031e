//go:build unix

package checkpoint

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a file for this process; the system gives it free when the
// process ends, however that happens. Some network file systems have no such locks.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return errLocked
	}
	return errNoLocks
}

// removeClaim removes the file while it is still locked, so that nobody takes what is
// about to go.
func removeClaim(name string, f *os.File) error {
	err := os.Remove(name)
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}

// alive reports whether there is a process of this number.
func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
