//go:build !linux

package hugepage

// mapPages returns nil: the memory comes from Go's heap.
func mapPages(int) ([]byte, error) { return nil, nil }

func advise([]byte) {}

func unmapPages([]byte) {}
