//go:build unix

package plugin

import (
	"os"

	"golang.org/x/sys/unix"
)

// takeStdout returns standard output, for the handshake, and has all else that is printed there go to standard error:
// in this process, whatever it is written in, and in those that it starts.
func takeStdout() *os.File {
	const stdout, stderr, above = 1, 2, 10 // what a host passes on lies below
	kept, err := unix.FcntlInt(stdout, unix.F_DUPFD_CLOEXEC, above)
	if err != nil {
		return os.Stdout
	}
	if err := unix.Dup2(stderr, stdout); err != nil {
		unix.Close(kept)
		return os.Stdout
	}
	return os.NewFile(uintptr(kept), "handshake")
}
