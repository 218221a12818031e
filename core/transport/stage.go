package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// staging is what a call has in other places than its tensors, because the plugin cannot reach
// them where they are: copies of inputs, and outputs that are to be copied back.
type staging struct {
	memory  *shm.Pool // of the host, for inputs
	inputs  [][]byte
	outputs []stagedOutput
}

// stagedOutput is an output that the plugin writes elsewhere.
type stagedOutput struct{ to, from []byte }

// invoke writes the record of a call, has the process run it, and brings home what
// had to be staged. It returns how many tensors had to be.
func (p *plugin) invoke(ctx context.Context, k *kernel, c *core.Call) (copies int, err error) {
	start := clock.Now()
	if err := p.proc.forget(); err != nil {
		return 0, err
	}
	handle, err := p.proc.bind(binding{k.number, c.Pass, c.Facts})
	if err != nil {
		return 0, err
	}
	defer p.unstage()
	if copies, err = p.write(p.proc.link.record(), handle, c); err != nil {
		return copies, err
	}
	limit := func() time.Duration { return p.opts.limit(c.Work()) }
	a, err := p.proc.call(ctx, 1, wire.RecordSize(len(c.In)+len(c.Out)), limit,
		func(waited time.Duration) { p.sayWaiting(c, waited, limit()) })
	if err == nil {
		err = statusError(a)
	}
	if err != nil {
		return copies, err
	}
	if err := p.accept(c); err != nil {
		return copies, err
	}
	waited := clock.Since(start)
	k.count(func(h *core.Health) { h.Waited += waited; h.Busy += min(a.Busy, waited) }) // a plugin may claim anything
	return copies, nil
}

// write writes the record of a call, and returns how many tensors had to be staged.
func (i *instance) write(rec []byte, handle uint32, c *core.Call) (copies int, err error) {
	wire.PutHeader(rec, handle, c)
	at := 0
	for side, tensors := range [2][]core.Tensor{c.In, c.Out} {
		output := side == 1
		for n, t := range tensors {
			entry := wire.EntryOf(rec, at)
			copied, err := i.put(entry, c, t, output)
			if err != nil {
				return copies, err
			}
			if output && len(c.Add) > 0 && c.Add[n] {
				wire.PutAdds(entry)
			}
			if output && copied && c.Keeps(n) {
				copy(i.stage.outputs[len(i.stage.outputs)-1].from, t.Data)
			}
			// Integers that are returned belong in the host's memory: see accept.
			if copied && !(output && t.DType == core.Int32) {
				copies++
			}
			at++
		}
	}
	return copies, nil
}

// accept copies the staged outputs to where they belong. Nonsense among them counts as a death,
// and the process is ended. Integers are used as indices by their readers, who therefore keep
// them in the host's memory: they are copied once from where the plugin may still write, and
// checked where it cannot.
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
func (i *instance) unstage() {
	for _, b := range i.stage.inputs {
		i.stage.memory.Free(b)
	}
	i.stage.inputs = i.stage.inputs[:0]
	for _, o := range i.stage.outputs {
		i.output.Free(o.from)
	}
	clear(i.stage.outputs)
	i.stage.outputs = i.stage.outputs[:0]
}

// put writes the entry of a tensor, and finds it another place if the plugin cannot map it where it
// is, or cannot write there.
func (i *instance) put(e []byte, c *core.Call, t core.Tensor, output bool) (copied bool, err error) {
	if len(t.Shape) > wire.MaxRank {
		return false, fmt.Errorf("%w: tensor of shape %v has more than %d axes", core.ErrBadCall, t.Shape, wire.MaxRank)
	}
	if len(t.Data) == 0 {
		wire.PutEntry(e, 0, 0, t)
		return false, nil
	}
	r, offset, ok := i.locate(t.Data)
	switch {
	case ok && !output && i.output.Has(r) &&
		slices.ContainsFunc(c.Out, func(out core.Tensor) bool { return shm.Overlap(t.Data, out.Data) }):
		return false, fmt.Errorf("%w: an output overlaps the input %s%v; a call that dies could not be repeated",
			core.ErrBadCall, t.DType, t.Shape)
	case !ok || output && !i.output.Has(r):
		copied = true
		b, err := i.room(t.Data, output)
		if err != nil {
			return copied, err
		}
		if r, offset, ok = i.locate(b); !ok {
			return copied, errors.New("transport: the memory for copies of tensors is gone")
		}
	}
	if err := i.proc.share(r, i.output.Has(r)); err != nil {
		return copied, err
	}
	wire.PutEntry(e, r.ID(), offset, t)
	return copied, nil
}

// room makes a copy of an input, or room for an output, where the plugin can reach it.
func (i *instance) room(b []byte, output bool) ([]byte, error) {
	if output {
		room, err := i.output.Alloc(len(b))
		if err != nil {
			return nil, fmt.Errorf("transport: room for an output: %w", err)
		}
		i.stage.outputs = append(i.stage.outputs, stagedOutput{b, room})
		return room, nil
	}
	room, err := i.stage.memory.Alloc(len(b))
	if err != nil {
		return nil, fmt.Errorf("transport: an input lies outside shared memory; allocate it with NewMemory: %w", err)
	}
	i.stage.inputs = append(i.stage.inputs, room)
	copy(room, b)
	return room, nil
}

// locate finds the region of a slice, if it is one that the plugin can map.
func (i *instance) locate(b []byte) (*shm.Region, int64, bool) {
	r, offset, ok := shm.Locate(b)
	if ok && i.opts.how.doorbell == nil && r.Path() == "" {
		return nil, 0, false // it has no name to be mapped by
	}
	return r, offset, ok
}
