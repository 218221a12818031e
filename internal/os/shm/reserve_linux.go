package shm

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// counted reports whether this system refuses memory that it may not have, which it then does at the first
// touch of a page behind a descriptor: that ends the process.
var counted = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return err == nil && strings.TrimSpace(string(b)) == "2"
})

// take takes the room of n bytes. A file system that cannot do it without a write gets the write.
func (r *Region) take(from, n int64) error {
	for {
		err := unix.Fallocate(int(r.file.Fd()), 0, from, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil, errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.ENOMEM):
			return os.NewSyscallError("fallocate", err)
		case r.path == "":
			return nil // a sandbox without the call: it is as on any other system
		}
		return zero(r.file, from, n)
	}
}
