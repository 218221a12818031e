package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

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
	waiting bool   // wait has been called for this request
	early   bool   // there was a reply before the request
}

var _ link = (*doorbell)(nil)

// newDoorbell makes the control memory. The file is for the plugin to inherit; the
// doorbell owns it.
func newDoorbell(life *lifeline, spin time.Duration) (*doorbell, *os.File, error) {
	control, err := shm.New("control", wire.ControlSize, shm.Shared)
	if err != nil {
		return nil, nil, err
	}
	return &doorbell{control: control, life: life, Bells: wire.NewBells(control.Bytes()), spin: wire.Spinner{Limit: spin}}, control.File(), nil
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

func (d *doorbell) record() []byte { return d.Record() }

func (d *doorbell) start(int) { d.send(wire.Call, 0) }

func (d *doorbell) ask(kind wire.Kind, text []byte) error {
	if len(text) > wire.MaxRecord {
		return fmt.Errorf("transport: a request of %d bytes, at most %d fit", len(text), wire.MaxRecord)
	}
	d.send(kind, copy(d.record(), text))
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

// send rings for a request that is in place.
func (d *doorbell) send(kind wire.Kind, length int) {
	d.early = d.Replied() != d.number
	d.number++
	d.waiting = false
	d.Ask(d.number, kind, length)
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

func (d *doorbell) close() error { return d.control.Close() }
