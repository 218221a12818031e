package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/shm"
)

// server is the plugin's side: it knows the kernels, the regions that the host passed
// and the passes that were bound.
type server struct {
	proto.UnimplementedKernelsServer
	name, version string
	kernels       []core.Kernel

	mu      sync.RWMutex
	regions map[uint32]region
	bound   []*boundPass
	agreed  map[agreement]bool
}

var _ proto.KernelsServer = (*server)(nil)

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
	call    *core.Call
	refused error // why the kernel does not support the facts, nil if it does
	shapes  []int // room for the shapes of all tensors
}

func newServer(name, version string, kernels []core.Kernel) *server {
	return &server{name: name, version: version, kernels: kernels, regions: map[uint32]region{}, agreed: map[agreement]bool{}}
}

// Describe implements proto.KernelsServer.
func (s *server) Describe(context.Context, *proto.DescribeRequest) (*proto.DescribeReply, error) {
	d := &proto.DescribeReply{Name: s.name, Version: s.version}
	for _, k := range s.kernels {
		i := k.Info()
		p := &proto.KernelInfo{Op: string(i.Op), Summary: i.Summary, Backward: i.Backward}
		for _, t := range i.DTypes {
			p.Dtypes = append(p.Dtypes, t.String())
		}
		d.Kernels = append(d.Kernels, p)
	}
	return d, nil
}

// Supports implements proto.KernelsServer.
func (s *server) Supports(_ context.Context, r *proto.SupportsRequest) (*proto.SupportsReply, error) {
	k, f, err := s.use(r.GetKernel(), r.GetFacts())
	if err == nil {
		err = guard(func() error { return k.Supports(f) })
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.agreed[agreement{r.GetKernel(), f}] = true
	}
	st, reason := outcome(err)
	return &proto.SupportsReply{Status: st, Reason: reason}, nil
}

// Bind implements proto.KernelsServer.
func (s *server) Bind(_ context.Context, r *proto.BindRequest) (*proto.BindReply, error) {
	k, f, err := s.use(r.GetKernel(), r.GetFacts())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	pass := core.Forward
	if r.GetBackward() {
		pass = core.Backward
	}
	c, err := core.NewCall(k.Info().Op, pass, f)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	n := len(c.In) + len(c.Out)
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused error
	if !s.agreed[agreement{r.GetKernel(), f}] {
		refused = guard(func() error { return k.Supports(f) })
	}
	s.bound = append(s.bound, &boundPass{kernel: k, call: c, refused: refused, shapes: make([]int, 0, n*maxRank)})
	return &proto.BindReply{Handle: uint32(len(s.bound) - 1)}, nil
}

// MapRegion implements proto.KernelsServer.
func (s *server) MapRegion(_ context.Context, r *proto.MapRegionRequest) (*proto.MapRegionReply, error) {
	view, err := shm.MapPath(r.GetPath(), int64(r.GetSize()), r.GetWritable())
	if err == nil {
		err = s.addRegion(r.GetRegion(), view, r.GetWritable())
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &proto.MapRegionReply{}, nil
}

// UnmapRegion implements proto.KernelsServer.
func (s *server) UnmapRegion(_ context.Context, r *proto.UnmapRegionRequest) (*proto.UnmapRegionReply, error) {
	if err := s.dropRegion(r.GetRegion()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &proto.UnmapRegionReply{}, nil
}

// Invoke implements proto.KernelsServer.
func (s *server) Invoke(ctx context.Context, r *proto.InvokeRequest) (*proto.InvokeReply, error) {
	a := s.answer(ctx, r.GetRecord())
	return &proto.InvokeReply{Status: a.status, Text: a.text, BusyNs: uint64(a.busy)}, nil
}

// use finds a kernel by number and reads facts. One that was not known when the plugin was
// built may change what the op means, so it is not supported.
func (s *server) use(number uint32, facts []byte) (core.Kernel, core.Facts, error) {
	if int(number) >= len(s.kernels) {
		return nil, core.Facts{}, fmt.Errorf("%w: plugin %s has %d kernels, none has number %d", core.ErrBadCall, s.name, len(s.kernels), number)
	}
	var f core.Facts
	d := json.NewDecoder(bytes.NewReader(facts))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, core.Facts{}, fmt.Errorf("%w: %s does not understand the facts %s: %w; rebuild it with this version of tune", core.ErrNotSupported, s.name, facts, err)
	}
	return s.kernels[number], f, nil
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

// answer runs the call of a record.
func (s *server) answer(ctx context.Context, rec []byte) (a answer) {
	b, err := s.rebuild(rec)
	if err == nil {
		err = b.refused
	}
	if err == nil {
		start := time.Now()
		err = guard(func() error { return b.run(ctx) })
		a.busy = time.Since(start)
	}
	a.status, a.text = outcome(err)
	return a
}

// run runs the pass. rebuild and Bind have checked what core.Run would.
func (b *boundPass) run(ctx context.Context) error {
	if b.call.Pass == core.Backward {
		return b.kernel.Backward(ctx, b.call)
	}
	return b.kernel.Forward(ctx, b.call)
}

// rebuild turns a record into the Call that it stands for, with tensors that lie in
// this process's mappings.
func (s *server) rebuild(rec []byte) (*boundPass, error) {
	h, err := readHeader(rec)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if int64(h.handle) >= int64(len(s.bound)) {
		return nil, fmt.Errorf("%w: handle %d was not bound", core.ErrBadCall, h.handle)
	}
	b := s.bound[h.handle]
	c := b.call
	if h.inputs != len(c.In) || h.outputs != len(c.Out) {
		return nil, fmt.Errorf("%w: %s %s takes %d tensors and gives %d, the record has %d and %d", core.ErrBadCall,
			c.Op, c.Pass, len(c.In), len(c.Out), h.inputs, h.outputs)
	}
	if string(h.site) != c.Site {
		c.Site = string(h.site)
	}
	b.shapes = b.shapes[:0]
	for i := range c.In {
		if c.In[i], err = s.tensor(b, entry(rec, i), false); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
	}
	for i := range c.Out {
		if c.Out[i], err = s.tensor(b, entry(rec, h.inputs+i), true); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return b, c.Check()
}

// tensor returns the tensor of an entry, after making sure that it lies in a region
// and, for an output, in one that this process may write.
func (s *server) tensor(b *boundPass, e []byte, output bool) (core.Tensor, error) {
	at := len(b.shapes)
	id, offset, n, dtype, shapes, err := readEntry(e, b.shapes)
	if err != nil {
		return core.Tensor{}, err
	}
	b.shapes = shapes
	t := core.Tensor{DType: dtype, Shape: core.Shape(shapes[at:len(shapes):len(shapes)])}
	if n == 0 {
		return t, nil
	}
	r, ok := s.regions[id]
	if !ok {
		return t, fmt.Errorf("%w: region %d was not passed", core.ErrBadCall, id)
	}
	data := r.view.Bytes()
	switch {
	case offset > uint64(len(data)) || n > uint64(len(data))-offset:
		return t, fmt.Errorf("%w: %d bytes at %d are outside region %d", core.ErrBadCall, n, offset, id)
	case output && !r.writable:
		return t, fmt.Errorf("%w: region %d may not be written", core.ErrBadCall, id)
	}
	t.Data = data[offset : offset+n : offset+n]
	return t, nil
}

// guard runs f and turns a panic into an error. The stack goes to standard error, which
// the host logs. A fault in memory that may not be written is no panic: it ends the
// process.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			cause := r
			if p, ok := r.(interface{ Cause() any }); ok { // from another goroutine, with the stack of that
				cause = p.Cause()
			}
			err = fmt.Errorf("panic: %v", cause)
			fmt.Fprintf(os.Stderr, "kernel panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// outcome is what the host hears of an error.
func outcome(err error) (proto.Status, string) {
	if err == nil {
		return proto.Status_STATUS_OK, ""
	}
	text := strings.ToValidUTF8(err.Error(), "?") // gRPC refuses any other
	switch {
	case errors.Is(err, core.ErrNotSupported):
		return proto.Status_STATUS_NOT_SUPPORTED, text
	case errors.Is(err, core.ErrBadCall):
		return proto.Status_STATUS_BAD_CALL, text
	}
	return proto.Status_STATUS_FAILED, text
}
