package shm

import (
	"time"

	"golang.org/x/sys/unix"
)

// Settle makes large pages of the memory of all regions that is in use, where the system can. It copies each, which
// takes 1.6 to 3 seconds for a gigabyte (measured), and gives up after five: it pays in a run of many steps, and not
// in an answer of a second. Programs call it when they have touched what they will use.
//
// A page of 2 MiB instead of 4 KiB is found 512 times as often in the processor's table of recent pages, which
// on a virtual machine takes two walks to fill. Systems give shared memory large pages only where an
// administrator says so (shmem_enabled), but make them when asked since Linux 6.1 (madvise(2), MADV_COLLAPSE).
func Settle() {
	live.mu.Lock() // none is closed meanwhile
	defer live.mu.Unlock()
	if t := live.table.Load(); t != nil {
		patience := time.Now().Add(5 * time.Second)
		for _, r := range *t {
			r.settle(patience)
		}
	}
}

// settle makes large pages of those of which every part is there.
func (r *Region) settle(until time.Time) {
	if r.path != "" || r.base%largePage != 0 {
		return
	}
	fd := int(r.file.Fd())
	for end := int64(0); ; {
		from, err := unix.Seek(fd, end, unix.SEEK_DATA)
		if err != nil {
			return // there is no more
		}
		if end, err = unix.Seek(fd, from, unix.SEEK_HOLE); err != nil {
			return
		}
		for at := roundTo(from, largePage); at+largePage <= end; at += largePage {
			if unix.Madvise(r.data[at:at+largePage], unix.MADV_COLLAPSE) != nil || time.Now().After(until) {
				return // not on this system, or memory is in pieces
			}
		}
	}
}
