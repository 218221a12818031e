package simd

import "sync"

// stock keeps what calls need beside their operands, for the next calls. A sync.Pool would lose it to every second
// collection of garbage: a plugin has little else in its heap, so that megabytes that are lost and made again are the
// garbage that brings about the next collection, and each of its pages is a fault.
type stock[T any] struct {
	make func() *T
	mu   sync.Mutex
	free []*T // who was put last is in the caches
}

// get returns one that nobody uses.
func (s *stock[T]) get() *T {
	s.mu.Lock()
	n := len(s.free)
	if n == 0 {
		s.mu.Unlock()
		return s.make()
	}
	x := s.free[n-1]
	s.free = s.free[:n-1]
	s.mu.Unlock()
	return x
}

// put gives x back. As many are kept as compute at once when one caller does, or a few.
func (s *stock[T]) put(x *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < max(Threads(), 4) {
		s.free = append(s.free, x)
	}
}
