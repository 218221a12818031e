package hugepage

import "golang.org/x/sys/unix"

func mapPages(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

// advise asks for large pages. A kernel without them refuses, which changes nothing but
// the speed.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// unmapPages cannot fail on what mapPages returned.
func unmapPages(data []byte) { _ = unix.Munmap(data) }
