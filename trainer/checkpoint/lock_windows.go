package checkpoint

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes a file for this process; the system gives it free when the process ends.
// Other processes cannot read what is locked, so that it is a byte far behind the end.
func lockFile(f *os.File) error {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, at)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return errLocked
	}
	return errNoLocks
}

// removeClaim closes the file first, since a file that is open cannot be removed here. If
// another process has opened it meanwhile, the claim is that one's, and so is the file.
func removeClaim(name string, f *os.File) error {
	if f != nil {
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return err
	}
	return nil
}

// alive reports whether there is a process of this number.
func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(h)
	var code uint32
	const running = 259 // STILL_ACTIVE
	return windows.GetExitCodeProcess(h, &code) != nil || code == running
}
