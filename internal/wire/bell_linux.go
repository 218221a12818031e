package wire

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/sched"
)

// Bells are the two that hang in the control memory: the host rings for requests, the
// plugin for answers.
type Bells struct {
	request, reply, pluginAsleep, hostAsleep *uint32
	mem                                      []byte
}

// NewBells finds the bells in control memory, which both sides have mapped.
func NewBells(mem []byte) Bells {
	at := func(off int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
	return Bells{at(OffRequest), at(OffReply), at(OffPluginAsleep), at(OffHostAsleep), mem}
}

// Record is where the record of a call lies, or the text of another request.
func (b Bells) Record() []byte { return b.mem[OffRecord:] }

// Replied is the number of the latest answer.
func (b Bells) Replied() uint32 { return atomic.LoadUint32(b.reply) }

// Ask rings for a request that is in place. The length is that of its text, 0 for a call.
func (b Bells) Ask(number uint32, kind Kind, length int) {
	Order.PutUint32(b.mem[OffKind:], uint32(kind))
	Order.PutUint32(b.mem[OffTextLength:], uint32(length))
	sched.Rest()
	ring(b.request, b.pluginAsleep, number)
}

// AwaitRequest waits until there is a request other than old, and returns its number.
func (b Bells) AwaitRequest(old uint32, spin *Spinner) uint32 {
	return await(b.request, b.pluginAsleep, old, spin, 0)
}

// Request is what the latest request asks for. A call has a record and no text.
func (b Bells) Request() (kind Kind, text string) {
	if kind = Kind(Order.Uint32(b.mem[OffKind:])); kind != Call {
		text = string(b.Record()[:min(Order.Uint32(b.mem[OffTextLength:]), MaxRecord)])
	}
	return kind, text
}

// Give rings for the answer to a request.
func (b Bells) Give(number uint32, a Answer) {
	Order.PutUint32(b.mem[OffStatus:], uint32(a.Status))
	Order.PutUint32(b.mem[OffAnswerLength:], uint32(copy(b.mem[OffAnswer:OffRecord], a.Text)))
	Order.PutUint64(b.mem[OffBusy:], uint64(a.Busy))
	sched.Rest()
	ring(b.reply, b.hostAsleep, number)
}

// AwaitAnswer waits not much longer than limit until there is an answer other than old, and
// returns the number of the latest one.
func (b Bells) AwaitAnswer(old uint32, spin *Spinner, limit time.Duration) uint32 {
	return await(b.reply, b.hostAsleep, old, spin, limit)
}

// Answer is the latest answer. It trusts nothing.
func (b Bells) Answer() Answer {
	n := min(Order.Uint32(b.mem[OffAnswerLength:]), MaxAnswer)
	return Answer{Status(Order.Uint32(b.mem[OffStatus:])), string(b.mem[OffAnswer : OffAnswer+n]),
		Nanoseconds(Order.Uint64(b.mem[OffBusy:]))}
}

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
func await(word, asleep *uint32, old uint32, spin *Spinner, limit time.Duration) uint32 {
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

// Spinner waits actively, for a short time. When that was in vain a few times in a row,
// because calls take long or the other side has no core to run on, it does so only now
// and then, to notice when it pays again.
type Spinner struct {
	Limit  time.Duration // 0 or less: never
	misses uint          // in a row
}

const (
	spinMisses = 3  // give up after these
	spinRetry  = 64 // but try every so many waits
)

// on looks at the word until it is no longer old or the time is over, and returns it.
func (s *Spinner) on(word *uint32, old uint32) uint32 {
	v := atomic.LoadUint32(word)
	if v != old || s.Limit <= 0 {
		return v
	}
	s.misses++
	if s.misses > spinMisses && s.misses%spinRetry != 0 {
		return v
	}
	// Asking for the time costs more than a look.
	for start := time.Now(); time.Since(start) < s.Limit; sched.Yield() {
		for range 100 {
			if v := atomic.LoadUint32(word); v != old {
				s.misses = 0
				return v
			}
		}
	}
	return old
}
