package transport

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/wire"
)

// pass sends the descriptor of a region to the plugin and waits until it is mapped.
func (l *lifeline) pass(ctx context.Context, f *os.File, region uint32, size int64, writable bool) error {
	what := wire.MapReadOnly
	if writable {
		what = wire.MapWritable
	}
	return l.ask(ctx, region, what, size, unix.UnixRights(int(f.Fd())))
}

// takeBack waits until the plugin has unmapped a region.
func (l *lifeline) takeBack(ctx context.Context, region uint32) error {
	return l.ask(ctx, region, wire.UnmapRegion, 0, nil)
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
