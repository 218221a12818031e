package shm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve gives n bytes of a file their room on the file system.
func reserve(f *os.File, from, n int64) error {
	const piece = 64 << 20 // which a signal that comes in between does not undo
	for end := from + n; from < end; {
		size := min(piece, end-from)
		switch err := unix.Fallocate(int(f.Fd()), 0, from, size); {
		case err == nil:
			from += size
		case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS):
			return writeZeros(f, from, end-from)
		case !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("fallocate", err)
		}
	}
	return nil
}
