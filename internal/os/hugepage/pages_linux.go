package hugepage

import "golang.org/x/sys/unix"

// advise asks for large pages. A kernel without them refuses, which changes nothing but
// the speed.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
