//go:build !linux && !darwin && !freebsd

package shm

// freeSpace does not know: Windows takes the room of a file when that is made.
func freeSpace(string) (int64, bool) { return 0, false }

// addressLimit knows of none.
func addressLimit() int64 { return 0 }
