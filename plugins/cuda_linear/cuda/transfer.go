package cuda

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
)

// What a call gives lies in memory that comes and goes while the device could still be told of it. So all threads
// copy it to memory that stays, page-locked, which the device reads and writes by itself, in pieces: while some are on
// their way, others are copied.
const (
	// pieceElems is the most elements of a piece, and minElems the fewest, unless there are not as many: asking for a
	// copy takes as long as one of some 100 KiB.
	pieceElems = 1 << 18
	minElems   = 1 << 16
	// slotsEach is how many places there are for the pieces of each thread, and piecesEach how many pieces it gets of
	// a transfer that is large enough.
	slotsEach  = 3
	piecesEach = 4
)

// slot is page-locked memory of the host for a piece.
type slot struct {
	memory []float32
	done   uintptr // an event: the device has read or written it
	busy   bool    // which may not be so yet, in this pass
}

// transfer is a matrix that is to be copied: from a source to the device, or from there to a target.
type transfer struct {
	at    uintptr
	elems int
	from  Source
	to    Target
}

// piece is elements [lo, hi) of a transfer, on their way through a slot.
type piece struct {
	*transfer
	lo, hi int
	*slot
}

// place returns the memory of the piece in its slot, and its place there, its place on the device and its bytes.
func (c *piece) place() (memory []float32, host, device, bytes uintptr) {
	return c.memory[:c.hi-c.lo], uintptr(unsafe.Pointer(&c.memory[0])), c.at + uintptr(c.lo)*float32Bytes,
		uintptr(c.hi-c.lo) * float32Bytes
}

// pieces cuts transfers.
func pieces(all []transfer) (cut []piece) {
	total := 0
	for _, t := range all {
		total += t.elems
	}
	size := min(max(total/(piecesEach*vector.Threads()), minElems), pieceElems)
	for i := range all {
		t := &all[i]
		for lo := 0; lo < t.elems; lo += size {
			cut = append(cut, piece{transfer: t, lo: lo, hi: min(lo+size, t.elems)})
		}
	}
	return cut
}

// copier is a thread that copies pieces.
type copier struct {
	*driver
	failure
}

func (c *copier) check(call string, result uintptr) { c.add(c.driver.check(call, result)) }

// copy calls f for pieces that the transfers are cut into, each with a slot that the device is done with, on several
// threads at once, until there is an error.
func (p *Pass) copy(all []transfer, f func(c *copier, one *piece)) {
	cut := pieces(all)
	var mu sync.Mutex
	vector.Parallel(len(cut), 1, func(from, to int) {
		runtime.LockOSThread() // the current context is a thread's
		defer runtime.UnlockOSThread()
		c := &copier{driver: p.driver}
		c.check("cuCtxSetCurrent", p.setCurrent.Call(p.context))
		for i := range cut[from:to] {
			p.through(c, &cut[from+i], f)
		}
		mu.Lock()
		defer mu.Unlock()
		p.add(c.Err())
	})
}

// through calls f for a piece that has a slot, unless there was an error.
func (p *Pass) through(c *copier, one *piece, f func(c *copier, one *piece)) {
	one.slot = <-p.slots
	defer func() { p.slots <- one.slot }()
	if one.busy {
		c.check("cuEventSynchronize", p.eventSync.Call(one.done))
	}
	one.busy = true
	if c.Err() == nil {
		f(c, one)
	}
}

// send copies transfers to the device.
func (p *Pass) send(all []transfer) {
	p.copy(all, func(c *copier, one *piece) {
		memory, host, device, bytes := one.place()
		one.from(memory, one.lo)
		c.check("cuMemcpyHtoDAsync", p.toDevice.Call(device, host, bytes, p.up))
		c.check("cuEventRecord", p.eventRecord.Call(one.done, p.up))
	})
}

// receive copies transfers from the device.
func (p *Pass) receive(all []transfer) {
	p.copy(all, func(c *copier, one *piece) {
		memory, host, device, bytes := one.place()
		c.check("cuMemcpyDtoHAsync", p.toHost.Call(host, device, bytes, p.down))
		c.check("cuEventRecord", p.eventRecord.Call(one.done, p.down))
		c.check("cuEventSynchronize", p.eventSync.Call(one.done))
		if c.Err() == nil {
			one.to(memory, one.lo)
		}
	})
}
