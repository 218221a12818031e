package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// doorbell is the host's side of the link through shared memory.
type doorbell struct {
	control *shm.Region
	life    *lifeline
	wire.Bells
	spin    wire.Spinner
	number  uint32 // of the latest request
	thread  int    // of the plugin, that can be put onto the core of who calls; 0 for none
	waiting bool   // wait has been called for this request
	early   bool   // there was a reply before the request
	before  int    // calls of the latest series that were done when the link was closed
}

var _ link = (*doorbell)(nil)

// newDoorbell makes the control memory. The file is for the plugin to inherit; the
// doorbell owns it.
func newDoorbell(life *lifeline, spin time.Duration) (*doorbell, *os.File, error) {
	control, err := shm.New("control", wire.ControlSize, shm.Shared)
	if err != nil {
		return nil, nil, err
	}
	return &doorbell{control: control, life: life, Bells: wire.NewBells(control.Bytes()),
		spin: wire.Spinner{Limit: spin}}, control.File(), nil
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
	return d.life.ask(ctx, region, wire.UnmapRegion, 0, nil)
}

func (d *doorbell) record() []byte { return d.Record() }

// meet takes note of what the process with that number has offered, if it is its own.
func (d *doorbell) meet(process int) {
	thread := d.Offered()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", process, thread)); err == nil {
		d.thread = thread
	}
}

func (d *doorbell) start(kind wire.Kind, n int) {
	thread := 0
	if d.spin.Idle() {
		thread = d.thread
	}
	if kind == wire.Call {
		n = 0
	} else {
		d.BeginSeries() // the plugin may die before it does anything
	}
	d.send(kind, n, thread)
}

func (d *doorbell) most() int { return d.MostCalls() }

func (d *doorbell) stop() { d.StopSeries() }

func (d *doorbell) finished() int {
	if d.control.Closed() {
		return d.before
	}
	return d.Done()
}

func (d *doorbell) ask(kind wire.Kind, text []byte) error {
	if len(text) > wire.MaxRecord {
		return fmt.Errorf("transport: a request of %d bytes, at most %d fit", len(text), wire.MaxRecord)
	}
	d.send(kind, copy(d.record(), text), 0)
	return nil
}

func (d *doorbell) hangUp(ended <-chan struct{}, grace time.Duration) error {
	err := d.life.conn.CloseWrite()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-d.life.gone:
	case <-ended:
	case <-t.C:
	}
	return err
}

// send rings for a request that is in place; see wire.Bells.Ask.
func (d *doorbell) send(kind wire.Kind, length, thread int) {
	d.early = d.Replied() != d.number
	d.number++
	d.waiting = false
	d.Ask(d.number, kind, length, thread)
}

func (d *doorbell) wait(limit time.Duration) (answer, bool) {
	spin := &d.spin
	if d.waiting {
		spin = &wire.Spinner{}
	}
	d.waiting = true
	old := d.number - 1
	switch reply := d.AwaitAnswer(old, spin, limit); {
	case d.early || reply != old && reply != d.number:
		return answer{broken: errUnasked}, true
	case reply == old:
		return answer{}, false
	}
	return answer{Answer: d.Answer()}, true
}

func (d *doorbell) close() error {
	d.Part()
	d.before = d.Done()
	return d.control.Close()
}

// pass sends the descriptor of a region to the plugin and waits until it is mapped.
func (l *lifeline) pass(ctx context.Context, f *os.File, region uint32, size int64, writable bool) error {
	what := wire.MapReadOnly
	if writable {
		what = wire.MapWritable
	}
	return l.ask(ctx, region, what, size, unix.UnixRights(int(f.Fd())))
}

// ask sends a message about a region and waits until the plugin has done it.
func (l *lifeline) ask(ctx context.Context, region, what uint32, size int64, rights []byte) error {
	select {
	case <-l.said:
		return errUnasked
	default:
	}
	var msg [wire.PassSize]byte
	wire.Order.PutUint32(msg[0:], region)
	wire.Order.PutUint32(msg[4:], what)
	wire.Order.PutUint64(msg[8:], uint64(size))
	if _, _, err := l.conn.WriteMsgUnix(msg[:], rights, nil); err != nil {
		return fmt.Errorf("transport: pass region %d: %w: %w", region, net.ErrClosed, err)
	}
	select {
	case answer := <-l.said:
		if answer[0] == 0 {
			if len(answer) > 1 {
				return errUnasked
			}
			return nil
		}
		return fmt.Errorf("transport: pass region %d: the plugin says %q", region, answer[1:])
	case <-l.gone:
		return fmt.Errorf("transport: pass region %d: %w", region, net.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}
