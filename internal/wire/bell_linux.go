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
	request, reply, pluginAsleep, hostAsleep, done, stop *uint32
	hostTurn, pluginTurn                                 *sched.Turn // as either sees them
	mem                                                  []byte
}

// NewBells finds the bells in control memory, which both sides have mapped.
func NewBells(mem []byte) Bells {
	at := func(off int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
	host, plugin := at(OffHostIdle), at(OffPluginIdle)
	return Bells{at(OffRequest), at(OffReply), at(OffPluginAsleep), at(OffHostAsleep), at(OffDone), at(OffStop),
		&sched.Turn{Theirs: plugin, Ours: host}, &sched.Turn{Theirs: host, Ours: plugin}, mem}
}

// Record is where the record of a call lies, or the text of another request.
func (b Bells) Record() []byte { return b.mem[OffRecord:] }

// Replied is the number of the latest answer.
func (b Bells) Replied() uint32 { return atomic.LoadUint32(b.reply) }

// Ask rings for a request that is in place. The length is that of its text or of its series, 0 for a call. The thread,
// if it is not 0, is the one that the plugin has offered: if it sleeps, it is put onto the caller's core, which the
// caller leaves.
func (b Bells) Ask(number uint32, kind Kind, length, thread int) {
	Order.PutUint32(b.mem[OffKind:], uint32(kind))
	Order.PutUint32(b.mem[OffTextLength:], uint32(length))
	here := uint32(0)
	var next *sched.Turn
	if thread != 0 && atomic.LoadUint32(b.pluginAsleep) != 0 && sched.PutHere(thread) {
		here, next = 1, b.hostTurn
	}
	Order.PutUint32(b.mem[OffHere:], here)
	sched.RestFor(next)
	ring(b.request, b.pluginAsleep, number)
}

// Offer locks the goroutine to its thread, which is to wait for requests of the plugin, and says that it may be put
// onto the host's core for one. It offers none that would have to stay there.
func (b Bells) Offer() *sched.Thread {
	t := sched.ThisThread()
	if t.Anywhere() {
		Order.PutUint32(b.mem[OffPluginThread:], uint32(t.Number()))
	}
	return &t
}

// TakeSeries says how many calls the plugin takes in a series.
func (b Bells) TakeSeries(most int) { Order.PutUint32(b.mem[OffSeries:], uint32(most)) }

// MostCalls is the most calls that the plugin takes at once. It trusts nothing.
func (b Bells) MostCalls() int { return int(min(max(Order.Uint32(b.mem[OffSeries:]), 1), MaxSeries)) }

// BeginSeries has nothing done of the next series, and nobody stop it.
func (b Bells) BeginSeries() {
	atomic.StoreUint32(b.stop, 0)
	b.SetDone(0)
}

// StopSeries asks the plugin to do nothing of the series behind the call that runs.
func (b Bells) StopSeries() { atomic.StoreUint32(b.stop, 1) }

// IsStopped reports whether the host has asked for that.
func (b Bells) IsStopped() bool { return atomic.LoadUint32(b.stop) == 1 }

// SetDone says how many calls of the series that runs are done.
func (b Bells) SetDone(n int) { atomic.StoreUint32(b.done, uint32(n)) }

// Done is how many calls of the latest series are done, as the plugin says.
func (b Bells) Done() int { return int(min(atomic.LoadUint32(b.done), MaxSeries)) }

// Part has the host take no more turns with the plugin.
func (b Bells) Part() { b.hostTurn.End() }

// Offered is the number of that thread, or 0.
func (b Bells) Offered() int { return int(int32(Order.Uint32(b.mem[OffPluginThread:]))) }

// here reports whether the latest request put the plugin's thread onto the host's core.
func (b Bells) here() bool { return Order.Uint32(b.mem[OffHere:]) == 1 }

// AwaitRequest waits until there is a request other than old, and returns its number. The thread, if it is not nil, is
// the calling one, which was offered.
func (b Bells) AwaitRequest(old uint32, spin *Spinner, t *sched.Thread) uint32 {
	number := await(b.request, b.pluginAsleep, old, spin, 0)
	if t != nil && b.here() {
		t.Anywhere() // processes that it starts inherit its cores, and what it does may take long
	}
	return number
}

// Request is what the latest request asks for: the record of a call, those of a series, or a text.
func (b Bells) Request() (kind Kind, body []byte) {
	kind, body = Kind(Order.Uint32(b.mem[OffKind:])), b.Record()
	if kind != Call {
		body = body[:min(Order.Uint32(b.mem[OffTextLength:]), MaxRecord)]
	}
	return kind, body
}

// Give rings for the answer to a request.
func (b Bells) Give(number uint32, a Answer) {
	Order.PutUint32(b.mem[OffStatus:], uint32(a.Status))
	Order.PutUint32(b.mem[OffAnswerLength:], uint32(copy(b.mem[OffAnswer:OffRecord], a.Text)))
	Order.PutUint64(b.mem[OffBusy:], uint64(a.Busy))
	var next *sched.Turn
	if b.here() {
		next = b.pluginTurn
	}
	sched.RestFor(next)
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

// Idle reports whether the next wait is asleep from its beginning.
func (s *Spinner) Idle() bool {
	next := s.misses + 1
	return s.Limit <= 0 || next > spinMisses && next%spinRetry != 0
}

// on looks at the word until it is no longer old or the time is over, and returns it.
func (s *Spinner) on(word *uint32, old uint32) uint32 {
	v := atomic.LoadUint32(word)
	if v != old || s.Limit <= 0 {
		return v
	}
	idle := s.Idle()
	if s.misses++; idle {
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
