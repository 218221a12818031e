package transport

import (
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/internal/sched"
)

// ring changes *word and wakes the other side if it sleeps. Both the store here and the
// load of asleep are sequentially consistent, as is the sleeper's store of asleep
// before its last look at the word: one of the two sees the other.
func ring(word, asleep *uint32, value uint32) {
	atomic.StoreUint32(word, value)
	if atomic.LoadUint32(asleep) != 0 {
		sched.Wake(word)
	}
}

// await waits until *word is no longer old: first actively, then asleep for about
// limit, 0 for without limit. It returns the last value seen.
func await(word, asleep *uint32, old uint32, spin *spinner, limit time.Duration) uint32 {
	if v := spin.on(word, old); v != old {
		return v
	}
	atomic.StoreUint32(asleep, 1)
	defer atomic.StoreUint32(asleep, 0)
	for {
		if v := atomic.LoadUint32(word); v != old {
			return v
		}
		sched.Wait(word, old, limit)
		if limit > 0 {
			return atomic.LoadUint32(word)
		}
	}
}

// spinner waits actively, for a short time. When that was in vain a few times in a row,
// because calls take long or the other side has no core to run on, it does so only now
// and then, to notice when it pays again.
type spinner struct {
	limit  time.Duration // 0 or less: never
	misses uint          // in a row
}

const (
	spinMisses = 3  // give up after these
	spinRetry  = 64 // but try every so many waits
)

// on looks at the word until it is no longer old or the time is over, and returns it.
func (s *spinner) on(word *uint32, old uint32) uint32 {
	v := atomic.LoadUint32(word)
	if v != old || s.limit <= 0 {
		return v
	}
	s.misses++
	if s.misses > spinMisses && s.misses%spinRetry != 0 {
		return v
	}
	// Asking for the time costs more than a look.
	for start := time.Now(); time.Since(start) < s.limit; sched.Yield() {
		for range 100 {
			if v := atomic.LoadUint32(word); v != old {
				s.misses = 0
				return v
			}
		}
	}
	return old
}
