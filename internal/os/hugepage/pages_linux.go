package hugepage

import "golang.org/x/sys/unix"

// noReserve is because what is not touched costs nothing.
const noReserve = unix.MAP_NORESERVE

// advise asks for large pages. A kernel without them refuses, which changes nothing but
// the speed.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
