//go:build unix && !linux

package shm

// counted is for Linux.
func counted() bool { return false }

// take takes the room of n bytes by writing them: these systems have calls that allocate, but none that
// fills the holes of a file that has its size.
func (r *Region) take(from, n int64) error { return zero(r.file, from, n) }
