package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// streamLink carries the requests of rpcLink without gRPC, each in one write: a call of nothing takes
// an eighth of the time. It is the same connection otherwise: the plugin's socket, with a
// certificate for either side.
type streamLink struct {
	oneByOne
	conn   *tls.Conn
	limit  time.Duration // of how long a plugin may take to read a request
	number uint32        // of the latest request
	buf    []byte        // for records
	out    []byte
	in     []byte // what was read of an answer
	room   []byte // to read into
	broken error  // of a write
}

var _ link = (*streamLink)(nil)

// dialStream connects to the stream of a plugin that offers gRPC, which may take so long at most to read a request.
// There is none, and no error, if it knows gRPC only.
func dialStream(ctx context.Context, at net.Addr, config *tls.Config, limit time.Duration) (*streamLink, error) {
	config = config.Clone()
	config.NextProtos = []string{wire.StreamName, "h2"}
	config.DynamicRecordSizingDisabled = true // a request is one write
	dialer := tls.Dialer{Config: config}
	c, err := dialer.DialContext(ctx, at.Network(), at.String())
	if err != nil {
		return nil, fmt.Errorf("transport: stream of requests: %w", err)
	}
	conn, ok := c.(*tls.Conn)
	if !ok || conn.ConnectionState().NegotiatedProtocol != wire.StreamName {
		return nil, c.Close()
	}
	return &streamLink{conn: conn, limit: limit, buf: make([]byte, wire.MaxRecord), room: make([]byte, 4096)}, nil
}

func (l *streamLink) share(ctx context.Context, r *shm.Region, writable bool) error {
	return shareByPath(ctx, l, r, writable)
}

func (l *streamLink) forget(ctx context.Context, region uint32) error {
	return forgetByOrder(ctx, l, region)
}

func (l *streamLink) record() []byte { return l.buf }

func (l *streamLink) start(kind wire.Kind, n int) { _ = l.ask(kind, l.buf[:n]) } // wait says what went wrong

func (l *streamLink) ask(kind wire.Kind, text []byte) error {
	if len(text) > wire.MaxRecord {
		return fmt.Errorf("transport: a request of %d bytes, at most %d fit", len(text), wire.MaxRecord)
	}
	l.number++
	l.out = wire.PutAsk(l.out[:0], l.number, kind, text)
	// A request that is longer than what the system keeps for a reader waits for one, and a plugin may be stopped.
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.limit))
	switch _, err := l.conn.Write(l.out); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.broken = fmt.Errorf("it took no request for %v", l.limit)
	case err != nil:
		l.broken = fmt.Errorf("transport: %w: %w", net.ErrClosed, err)
	}
	return nil
}

func (l *streamLink) wait(d time.Duration) (answer, bool) {
	if l.broken != nil {
		return answer{broken: l.broken}, true
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(d)) // a closed connection says so when it is read
	for {
		number, a, n, err := wire.TakeAnswer(l.in)
		switch {
		case err != nil:
			return answer{broken: err}, true
		case n > 0 && (number != l.number || n < len(l.in)):
			return answer{broken: errUnasked}, true
		case n > 0:
			l.in = l.in[:0]
			return answer{Answer: a}, true
		}
		n, err = l.conn.Read(l.room)
		l.in = append(l.in, l.room[:n]...)
		switch {
		case n > 0 || err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return answer{}, false
		default:
			return answer{broken: fmt.Errorf("transport: %w: %w", net.ErrClosed, err)}, true
		}
	}
}

// hangUp ends the stream: go-plugin says the rest by an RPC, and the plugin then has nobody to wait for.
func (l *streamLink) hangUp(<-chan struct{}, time.Duration) error { return l.close() }

func (l *streamLink) close() error {
	if err := l.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
