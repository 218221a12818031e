package checksum

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Hold keeps others from writing to an open file until it is closed, where its file system and its owner allow that:
// they wait. A lease is refused to who is not the owner, by some file systems, and while somebody writes.
func Hold(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
}

// Settled is how long ago a file must have changed for another write to show: file systems keep times in steps, of two
// seconds at most.
const Settled = 3 * time.Second

// StateOf knows the state of a file that is held, so that nobody can write to it now, nor has mapped it to write to:
// who writes to it once it is closed changes a time that nobody can set.
func StateOf(f *os.File) (s State, known bool) {
	if lease, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0); err != nil || lease != unix.F_RDLCK {
		return s, false
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil || time.Since(time.Unix(stat.Ctim.Unix())) < Settled {
		return s, false
	}
	s = State{Device: stat.Dev, Inode: stat.Ino, Size: uint64(stat.Size)}
	s.Modified, s.ModifiedNanos = stat.Mtim.Unix()
	s.Changed, s.ChangedNanos = stat.Ctim.Unix()
	return s, true
}
