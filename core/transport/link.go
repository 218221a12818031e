package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/os/temp"
	"github.com/seed98097648/tune/internal/wire"
)

// link is the way requests take to a plugin's process: a doorbell in shared memory, a plain
// stream, or RPC. Only one is under way at a time.
type link interface {
	// share lets the plugin map a region. It fails when the process is gone.
	share(ctx context.Context, r *shm.Region, writable bool) error
	// forget has the plugin unmap a region that it was given.
	forget(ctx context.Context, region uint32) error
	// record is where the next call's record is written.
	record() []byte
	// start hands over the first n bytes of the record, a call's or those of a series.
	start(kind wire.Kind, n int)
	// most is how many calls a series may have: 1 where there are none.
	most() int
	// stop has no call of the series begin any more.
	stop()
	// finished is how many calls of the latest series are done, as the plugin says; also once the link is closed.
	finished() int
	// ask hands over a request other than a call.
	ask(kind wire.Kind, text []byte) error
	// wait waits for the answer to either, not much longer than d. It may be called again.
	wait(d time.Duration) (answer, bool)
	// hangUp tells the process to end, and waits until it has, at most as long as grace.
	hangUp(ended <-chan struct{}, grace time.Duration) error
	close() error
}

// answer is the outcome of a request.
type answer struct {
	wire.Answer
	broken error // the link broke before there was an answer
}

// errUnasked says that a plugin does not keep to the protocol. It is ended for that:
// which answer belongs to which request is not known any more.
var errUnasked = errors.New("it answered without being asked")

// oneByOne is a link without series.
type oneByOne struct{}

func (oneByOne) most() int { return 1 }

func (oneByOne) stop() {}

func (oneByOne) finished() int { return 0 }

// rpcLink carries requests in RPCs. The plugin maps regions by their path.
type rpcLink struct {
	oneByOne
	kernels proto.KernelsClient
	buf     []byte
	done    chan answer
}

func (l *rpcLink) share(ctx context.Context, r *shm.Region, writable bool) error {
	return shareByPath(ctx, l, r, writable)
}

func (l *rpcLink) forget(ctx context.Context, region uint32) error {
	return forgetByOrder(ctx, l, region)
}

// shareByPath has the plugin open and map the file of a region.
func shareByPath(ctx context.Context, l link, r *shm.Region, writable bool) error {
	if !wire.Plain(r.Path()) {
		return fmt.Errorf("transport: the path %q of a region is no plain line of text; have %s name another folder",
			r.Path(), temp.Variable())
	}
	return order(ctx, l, wire.Map,
		fmt.Sprintf("region=%d\nsize=%d\nwritable=%t\npath=%s\n", r.ID(), r.Size(), writable, r.Path()))
}

func forgetByOrder(ctx context.Context, l link, region uint32) error {
	return order(ctx, l, wire.Unmap, fmt.Sprintf("region=%d\n", region))
}

// order makes a request that is to be done before anything else. Such a link breaks when the process ends.
func order(ctx context.Context, l link, kind wire.Kind, text string) error {
	a, err := control{l, func() bool { return false }}.ask(ctx, kind, []byte(text))
	if err != nil {
		return err
	}
	return statusError(a)
}

func (l *rpcLink) record() []byte { return l.buf }

func (l *rpcLink) start(kind wire.Kind, n int) { _ = l.ask(kind, l.buf[:n]) }

// ask makes the RPC without the caller's context: giving up on a call does not stop
// the kernel, so the answer has to be awaited or the process ended. Either ends the RPC.
func (l *rpcLink) ask(kind wire.Kind, text []byte) error {
	go func() {
		r, err := l.kernels.Ask(context.Background(), &proto.Request{Kind: uint32(kind), Body: text})
		l.done <- answer{wire.Answer{Status: wire.Status(r.GetStatus()), Text: r.GetText(),
			Busy: wire.Nanoseconds(r.GetBusyNs())}, err}
	}()
	return nil
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

// hangUp has nothing to do: go-plugin says it by an RPC.
func (l *rpcLink) hangUp(<-chan struct{}, time.Duration) error { return nil }

func (l *rpcLink) close() error { return nil }
