package transport

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/shm"
)

// link is the way calls take to a plugin's process: a doorbell in shared memory, or
// RPC. Only one call is under way at a time.
type link interface {
	// share lets the plugin map a region. It fails when the process is gone.
	share(ctx context.Context, r *shm.Region, writable bool) error
	// forget has the plugin unmap a region that it was given.
	forget(ctx context.Context, region uint32) error
	// record is where the next call's record is written.
	record() []byte
	// start hands over the first n bytes of the record.
	start(n int)
	// wait waits for the answer, not much longer than d. It may be called again.
	wait(d time.Duration) (answer, bool)
	close() error
}

// answer is the outcome of a call.
type answer struct {
	status proto.Status
	text   string
	busy   time.Duration // that the kernel ran, by the plugin's clock
	broken error         // the link broke before there was an answer
}

// errUnasked says that a plugin does not keep to the protocol. It is ended for that:
// which answer belongs to which request is not known any more.
var errUnasked = errors.New("it answered without being asked")

// nanoseconds is a duration that a plugin reports, which may be anything.
func nanoseconds(n uint64) time.Duration { return time.Duration(min(n, uint64(math.MaxInt64))) }

// rpcLink carries call records in RPCs. The plugin maps regions by their path.
type rpcLink struct {
	kernels proto.KernelsClient
	buf     []byte
	done    chan answer
}

func newRPCLink(k proto.KernelsClient) *rpcLink {
	return &rpcLink{kernels: k, buf: make([]byte, maxRecord), done: make(chan answer, 1)}
}

func (l *rpcLink) share(ctx context.Context, r *shm.Region, writable bool) error {
	_, err := l.kernels.MapRegion(ctx, &proto.MapRegionRequest{
		Region: r.ID(), Size: uint64(r.Size()), Path: r.Path(), Writable: writable})
	return err
}

func (l *rpcLink) forget(ctx context.Context, region uint32) error {
	_, err := l.kernels.UnmapRegion(ctx, &proto.UnmapRegionRequest{Region: region})
	return err
}

func (l *rpcLink) record() []byte { return l.buf }

// start runs the RPC without the caller's context: giving up on a call does not stop
// the kernel, so the answer has to be awaited or the process ended. Either ends the RPC.
func (l *rpcLink) start(n int) {
	go func() {
		r, err := l.kernels.Invoke(context.Background(), &proto.InvokeRequest{Record: l.buf[:n]})
		if err != nil {
			l.done <- answer{broken: err}
			return
		}
		l.done <- answer{status: r.GetStatus(), text: r.GetText(), busy: nanoseconds(r.GetBusyNs())}
	}()
}

func (l *rpcLink) wait(d time.Duration) (answer, bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case a := <-l.done:
		return a, true
	case <-t.C:
		return answer{}, false
	}
}

func (l *rpcLink) close() error { return nil }
