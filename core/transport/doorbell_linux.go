package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/sched"
	"github.com/seed98097648/tune/internal/shm"
)

// doorbell is the host's side of the link through shared memory. The plugin's side is
// doorman.
type doorbell struct {
	control *shm.Region
	life    *lifeline
	words
	spin    spinner
	number  uint32 // of the latest request
	waiting bool   // wait has been called for this request
	early   bool   // there was a reply before the request
}

var _ asker = (*doorbell)(nil)

// words are the parts of the control memory that both sides use.
type words struct {
	request, reply, pluginAsleep, hostAsleep *uint32
	mem                                      []byte
}

func newWords(mem []byte) words {
	at := func(off int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
	return words{at(offRequest), at(offReply), at(offPluginAsleep), at(offHostAsleep), mem}
}

// give rings for the answer to a request.
func (w words) give(number uint32, a answer) {
	order.PutUint32(w.mem[offStatus:], uint32(a.status))
	order.PutUint32(w.mem[offTextLength:], uint32(copy(w.mem[offText:offRecord], a.text)))
	order.PutUint64(w.mem[offBusy:], uint64(a.busy))
	ring(w.reply, w.hostAsleep, number)
}

// newDoorbell makes the control memory. The file is for the plugin to inherit; the
// doorbell owns it.
func newDoorbell(life *lifeline, spin time.Duration) (*doorbell, *os.File, error) {
	control, err := shm.New("control", controlSize, shm.Shared)
	if err != nil {
		return nil, nil, err
	}
	return &doorbell{control: control, life: life, words: newWords(control.Bytes()), spin: spinner{limit: spin}}, control.File(), nil
}

// share passes a descriptor of the region over the lifeline: a writable one to the
// plugin whose outputs lie there, a read-only one to all others.
func (d *doorbell) share(ctx context.Context, r *shm.Region, writable bool) error {
	if writable {
		return d.life.pass(ctx, r.File(), r.ID(), r.Size(), true)
	}
	f, err := r.ReadOnly()
	if err != nil {
		return err
	}
	return errors.Join(d.life.pass(ctx, f, r.ID(), r.Size(), false), f.Close())
}

func (d *doorbell) forget(ctx context.Context, region uint32) error {
	return d.life.takeBack(ctx, region)
}

func (d *doorbell) record() []byte { return d.mem[offRecord:] }

func (d *doorbell) start(int) { d.send(requestCall, 0) }

// ask implements asker.
func (d *doorbell) ask(kind uint32, text []byte) error {
	if len(text) > maxRecord {
		return fmt.Errorf("transport: a request of %d bytes, at most %d fit", len(text), maxRecord)
	}
	d.send(kind, copy(d.record(), text))
	return nil
}

// hangUp implements asker.
func (d *doorbell) hangUp(grace time.Duration) error {
	err := d.life.conn.CloseWrite()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-d.life.gone:
	case <-t.C:
	}
	return err
}

// send rings for a request that is in place.
func (d *doorbell) send(kind uint32, length int) {
	d.early = atomic.LoadUint32(d.reply) != d.number
	order.PutUint32(d.mem[offKind:], kind)
	order.PutUint32(d.mem[offAskLength:], uint32(length))
	d.number++
	d.waiting = false
	sched.Rest()
	ring(d.request, d.pluginAsleep, d.number)
}

func (d *doorbell) wait(limit time.Duration) (answer, bool) {
	spin := &d.spin
	if d.waiting {
		spin = &spinner{}
	}
	d.waiting = true
	old := d.number - 1
	switch reply := await(d.reply, d.hostAsleep, old, spin, limit); {
	case d.early || reply != old && reply != d.number:
		return answer{broken: errUnasked}, true
	case reply == old:
		return answer{}, false
	}
	a := answer{status: proto.Status(order.Uint32(d.mem[offStatus:])), busy: nanoseconds(order.Uint64(d.mem[offBusy:]))}
	if n := min(order.Uint32(d.mem[offTextLength:]), offRecord-offText); n > 0 {
		a.text = string(d.mem[offText : offText+n])
	}
	return a, true
}

func (d *doorbell) close() error { return d.control.Close() }

// doorman answers the doorbell in the plugin's process, for as long as that lives.
func doorman(s *server, spin time.Duration) error {
	f := os.NewFile(controlFD, "control")
	view, err := shm.Map(f, controlSize, true)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("transport: control memory: %w", err)
	}
	w := newWords(view.Bytes())
	go func() {
		spin := &spinner{limit: spin}
		for calls, number := uint32(1), atomic.LoadUint32(w.reply); ; calls++ {
			number = await(w.request, w.pluginAsleep, number, spin, 0)
			var a answer
			if kind := order.Uint32(w.mem[offKind:]); kind == requestCall {
				a = s.answer(context.Background(), w.mem[offRecord:])
			} else {
				n := min(order.Uint32(w.mem[offAskLength:]), maxRecord)
				a = s.asked(context.Background(), kind, string(w.mem[offRecord:][:n]))
			}
			sched.Rest()
			w.give(number, a)
			if calls <= imageCalls && calls&(calls-1) == 0 {
				rest()
			}
		}
	}()
	return nil
}
