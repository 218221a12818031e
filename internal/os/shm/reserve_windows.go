package shm

// counted is for Linux.
func counted() bool { return false }

// take has nothing to do: Windows takes the room of a file when that gets its size.
func (*Region) take(_, _ int64) error { return nil }
