package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// server knows the kernels, the regions that the host passed and the passes that were
// bound.
type server struct {
	plugins []Offer
	kernels []core.Kernel // of all plugins, in their order
	named   bool          // records name the contents of inputs
	host    *os.File      // standard output as it was: the host reads a line of it

	mu      sync.RWMutex
	regions map[uint32]region
	bound   []*boundPass
	agreed  map[agreement]bool
}

// region is a region of the host, mapped here.
type region struct {
	view     *shm.View
	writable bool
}

// agreement is facts that a kernel said it supports: that holds for all calls, whatever it
// says later.
type agreement struct {
	kernel uint32
	facts  core.Facts
}

// boundPass is a pass of a kernel for some facts, and the Call that is used for it
// again and again: one call at a time is under way.
type boundPass struct {
	kernel  core.Kernel
	info    core.Info
	call    *core.Call
	refused error // why the kernel does not support the facts, nil if it does
	shapes  []int // room for the shapes of all tensors
}

func newServer(plugins ...Offer) *server {
	_, named := os.LookupEnv(wire.EnvKeep)
	s := &server{plugins: plugins, named: named, regions: map[uint32]region{}, agreed: map[agreement]bool{}}
	for _, p := range plugins {
		s.kernels = append(s.kernels, p.Kernels...)
	}
	return s
}

// addRegion makes a mapped region known to calls.
func (s *server) addRegion(id uint32, v *shm.View, writable bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.regions[id]; ok || id == 0 {
		return errors.Join(fmt.Errorf("transport: region %d came twice", id), v.Close())
	}
	s.regions[id] = region{v, writable}
	return nil
}

// dropRegion unmaps a region, which no call may name any more. The host asks between
// calls only.
func (s *server) dropRegion(id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.regions[id]
	if !ok {
		return fmt.Errorf("transport: region %d is to be unmapped and was not passed", id)
	}
	delete(s.regions, id)
	for _, b := range s.bound { // the tensors of their latest calls may lie there
		clear(b.call.In)
		clear(b.call.Out)
	}
	return r.view.Close()
}

// called runs the call of a record.
func (s *server) called(ctx context.Context, rec []byte) wire.Answer {
	b, err := s.rebuild(rec)
	if err == nil {
		err = b.refused
	}
	if err != nil {
		return wire.Outcome(err)
	}
	start := clock.Now()
	err = guard(func() error { return b.run(ctx) })
	a := wire.Outcome(err)
	a.Busy = clock.Since(start)
	return a
}

// progress is how a series and its host know of each other.
type progress interface {
	SetDone(n int)
	IsStopped() bool
}

// errStopped is the answer to a host that does not want the rest of a series.
var errStopped = errors.New("the host has stopped the series")

// series runs the calls of the records, one behind the other, until one fails, and says after each how many are done.
// The text of an answer that is OK has the nanoseconds that each kernel ran, in 8 bytes; any other has the time of
// those that are done.
func (s *server) series(ctx context.Context, records []byte, p progress) wire.Answer {
	var all wire.Answer
	var each []byte
	for n := 1; len(records) > 0; n++ {
		size, err := wire.SizeOf(records)
		if p.IsStopped() {
			err = errStopped
		}
		a := wire.Outcome(err)
		if err == nil {
			a = s.called(ctx, records[:size])
		}
		if a.Status != wire.OK {
			a.Busy = all.Busy
			return a
		}
		p.SetDone(n)
		all.Busy += a.Busy
		each = wire.Order.AppendUint64(each, uint64(a.Busy))
		records = records[size:]
	}
	all.Text = string(each)
	return all
}

// run runs the pass. rebuild and bind have checked what core.Run would.
func (b *boundPass) run(ctx context.Context) error {
	if b.call.Pass == core.Backward {
		return b.kernel.Backward(ctx, b.call)
	}
	return b.kernel.Forward(ctx, b.call)
}

// rebuild turns a record into the Call that it stands for, with tensors that lie in
// this process's mappings.
func (s *server) rebuild(rec []byte) (*boundPass, error) {
	h, err := wire.ReadHeader(rec)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if int64(h.Handle) >= int64(len(s.bound)) {
		return nil, fmt.Errorf("%w: handle %d was not bound", core.ErrBadCall, h.Handle)
	}
	b := s.bound[h.Handle]
	c := b.call
	if h.Inputs != len(c.In) || h.Outputs != len(c.Out) {
		return nil, fmt.Errorf("%w: %s %s takes %d tensors and gives %d, the record has %d and %d", core.ErrBadCall,
			c.Op, c.Pass, len(c.In), len(c.Out), h.Inputs, h.Outputs)
	}
	if string(h.Site) != c.Site {
		c.Site = string(h.Site)
	}
	b.shapes = b.shapes[:0]
	for i := range c.In {
		e := wire.EntryOf(rec, i)
		if c.In[i], err = s.tensor(b, e, false); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		if s.named {
			c.In[i].Content = wire.ContentOf(e)
		}
	}
	for i := range c.Out {
		e := wire.EntryOf(rec, h.Inputs+i)
		if c.Out[i], err = s.tensor(b, e, true); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
		c.Add[i] = wire.Adds(e)
	}
	return b, b.info.Accepts(c)
}

// tensor returns the tensor of an entry, after making sure that it lies in a region
// and, for an output, in one that this process may write.
func (s *server) tensor(b *boundPass, entry []byte, output bool) (core.Tensor, error) {
	at := len(b.shapes)
	e, err := wire.ReadEntry(entry, b.shapes)
	if err != nil {
		return core.Tensor{}, err
	}
	b.shapes = e.Shape
	t := core.Tensor{DType: e.DType, Shape: core.Shape(b.shapes[at:len(b.shapes):len(b.shapes)])}
	if e.Bytes == 0 {
		return t, nil
	}
	r, ok := s.regions[e.Region]
	if !ok {
		return t, fmt.Errorf("%w: region %d was not passed", core.ErrBadCall, e.Region)
	}
	data := r.view.Bytes()
	switch {
	case e.Offset > uint64(len(data)) || e.Bytes > uint64(len(data))-e.Offset:
		return t, fmt.Errorf("%w: %d bytes at %d are outside region %d", core.ErrBadCall, e.Bytes, e.Offset, e.Region)
	case output && !r.writable:
		return t, fmt.Errorf("%w: region %d may not be written", core.ErrBadCall, e.Region)
	}
	t.Data = data[e.Offset : e.Offset+e.Bytes : e.Offset+e.Bytes]
	return t, nil
}

// guard runs f and turns a panic into an error that says where it was. The stack goes to standard error, which
// the host logs. A fault in memory that may not be written is no panic: it ends the
// process.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			cause := r
			if p, ok := r.(interface{ Cause() any }); ok { // from another goroutine, with the stack of that
				cause = p.Cause()
			}
			stack := debug.Stack()
			err = fmt.Errorf("panic: %v%s", cause, origin(fmt.Sprintf("%v\n%s", r, stack)))
			fmt.Fprintf(os.Stderr, "kernel panic: %v\n%s", r, stack)
		}
	}()
	return f()
}

// origin finds in a stack where it panicked, outside of the runtime: " at FOLDER/FILE:LINE", or nothing.
func origin(stack string) string {
	_, frames, _ := strings.Cut("\n"+stack, "\npanic(")
	_, frames, _ = strings.Cut(frames, "\n\t") // that of panic itself
	for lines := strings.Split(frames, "\n"); len(lines) > 2; lines = lines[2:] {
		if file, _, _ := strings.Cut(strings.TrimSpace(lines[2]), " +0x"); !strings.HasPrefix(lines[1], "runtime.") {
			return fmt.Sprintf(" at %s/%s", path.Base(path.Dir(file)), path.Base(file))
		}
	}
	return ""
}
