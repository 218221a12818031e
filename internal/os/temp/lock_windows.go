package temp

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks an open file until it is closed: a byte of it far beyond its end, as the system keeps others from reading
// and writing what is locked. It knows nothing of folders.
func lock(f *os.File) (ok, known bool) {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &at)
	return err == nil, err == nil || errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// isOpen reports whether a file could not be removed because somebody has it open, such as a scanner of viruses, or
// has it in memory.
func isOpen(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_USER_MAPPED_FILE)
}
