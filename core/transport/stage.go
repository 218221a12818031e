package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// staging is where tensors go that the plugin cannot reach where they are. Inputs are
// copied into memory of the host's, where the next call has the room again.
type staging struct {
	memory  *shm.Pool
	inputs  [][]byte
	outputs []stagedOutput
}

// stagedOutput is an output that the plugin writes elsewhere, to be copied back.
type stagedOutput struct{ to, from []byte }

// input copies an input that lies outside shared memory.
func (s *staging) input(b []byte) ([]byte, error) {
	room, err := s.memory.Alloc(len(b))
	if err != nil {
		return nil, fmt.Errorf("transport: an input lies outside shared memory; allocate it with NewMemory: %w", err)
	}
	copy(room, b)
	s.inputs = append(s.inputs, room)
	return room, nil
}

// invoke writes the record of a call, has the process run it, and brings home what
// had to be staged. It returns how many tensors had to be.
func (p *plugin) invoke(ctx context.Context, k *kernel, c *core.Call) (copies int, err error) {
	start := time.Now()
	if err := p.proc.forget(); err != nil {
		return 0, err
	}
	handle, err := p.proc.bind(binding{k.number, c.Pass, c.Facts})
	if err != nil {
		return 0, err
	}
	defer p.unstage()
	rec := p.proc.link.record()
	wire.PutHeader(rec, handle, c)
	for i, t := range c.In {
		if err := p.putInput(wire.EntryOf(rec, i), c, t, &copies); err != nil {
			return copies, err
		}
	}
	for i, t := range c.Out {
		counted := &copies
		if t.DType == core.Int32 {
			counted = new(int) // it belongs in the host's memory: see accept
		}
		if err := p.putOutput(wire.EntryOf(rec, len(c.In)+i), t, counted); err != nil {
			return copies, err
		}
	}
	a, err := p.proc.call(ctx, wire.RecordSize(len(c.In)+len(c.Out)), func(waited time.Duration) { p.sayWaiting(c, waited) })
	if err == nil {
		err = statusError(a)
	}
	if err != nil {
		return copies, err
	}
	if err := p.accept(c); err != nil {
		return copies, err
	}
	waited := time.Since(start)
	k.count(func(h *core.Health) { h.Waited += waited; h.Busy += min(a.Busy, waited) }) // a plugin may claim anything
	return copies, nil
}

// accept brings the staged outputs home, and takes nonsense among them for a death: the
// process is ended. Integers are what others use as indices. Who does has them lie in the
// host's memory, so that they are read once from where the plugin may still write, and
// verified where it cannot.
func (p *plugin) accept(c *core.Call) error {
	if len(p.stage.outputs) == 0 {
		return nil
	}
	for _, o := range p.stage.outputs {
		copy(o.to, o.from)
	}
	if err := c.CheckReturned(); err != nil {
		return p.proc.died(err.Error())
	}
	return nil
}

// unstage makes the staged room free again.
func (p *plugin) unstage() {
	for _, b := range p.stage.inputs {
		p.stage.memory.Free(b)
	}
	p.stage.inputs = p.stage.inputs[:0]
	for _, o := range p.stage.outputs {
		p.output.Free(o.from)
	}
	clear(p.stage.outputs)
	p.stage.outputs = p.stage.outputs[:0]
}

// putInput writes the entry of an input, and copies it if the plugin cannot map it.
func (p *plugin) putInput(e []byte, c *core.Call, t core.Tensor, copies *int) error {
	if err := checkRank(t); err != nil {
		return err
	}
	if len(t.Data) == 0 {
		wire.PutEntry(e, 0, 0, t)
		return nil
	}
	r, offset, ok := p.locate(t.Data)
	if ok && p.output.Has(r) && overlapsOutput(c, t.Data) {
		return fmt.Errorf("%w: an output overlaps the input %s%v; a call that dies could not be repeated", core.ErrBadCall, t.DType, t.Shape)
	}
	if !ok {
		*copies++
		b, err := p.stage.input(t.Data)
		if err != nil {
			return err
		}
		if r, offset, ok = p.locate(b); !ok {
			return errors.New("transport: memory for staged inputs is gone")
		}
	}
	if err := p.proc.share(r, p.output.Has(r)); err != nil {
		return err
	}
	wire.PutEntry(e, r.ID(), offset, t)
	return nil
}

// putOutput writes the entry of an output, and finds it another place if the plugin
// cannot write where it is.
func (p *plugin) putOutput(e []byte, t core.Tensor, copies *int) error {
	if err := checkRank(t); err != nil {
		return err
	}
	if len(t.Data) == 0 {
		wire.PutEntry(e, 0, 0, t)
		return nil
	}
	r, offset, ok := p.locate(t.Data)
	if !ok || !p.output.Has(r) {
		*copies++
		b, err := p.output.Alloc(len(t.Data))
		if err != nil {
			return fmt.Errorf("transport: room for an output: %w", err)
		}
		p.stage.outputs = append(p.stage.outputs, stagedOutput{t.Data, b})
		if r, offset, ok = p.locate(b); !ok {
			return errors.New("transport: the plugin's output memory is gone")
		}
	}
	if err := p.proc.share(r, true); err != nil {
		return err
	}
	wire.PutEntry(e, r.ID(), offset, t)
	return nil
}

// locate finds the region of a slice, if it is one that the plugin can map.
func (p *plugin) locate(b []byte) (*shm.Region, int64, bool) {
	r, offset, ok := shm.Locate(b)
	if ok && p.opts.how.doorbell == nil && r.Path() == "" {
		return nil, 0, false // it has no name to be mapped by
	}
	return r, offset, ok
}

func overlapsOutput(c *core.Call, in []byte) bool {
	for _, t := range c.Out {
		if shm.Overlap(in, t.Data) {
			return true
		}
	}
	return false
}

func checkRank(t core.Tensor) error {
	if len(t.Shape) > wire.MaxRank {
		return fmt.Errorf("%w: tensor of shape %v has more than %d axes", core.ErrBadCall, t.Shape, wire.MaxRank)
	}
	return nil
}
