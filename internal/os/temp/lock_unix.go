//go:build unix && !solaris && !aix

package temp

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks an open file or folder until it is closed. It is not known whether anybody
// else has it locked where the file system has no locks.
func lock(f *os.File) (ok, known bool) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return err == nil, err == nil || errors.Is(err, unix.EWOULDBLOCK)
}

// isOpen reports nothing: what is open can be removed.
func isOpen(error) bool { return false }
