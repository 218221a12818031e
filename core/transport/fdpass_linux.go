package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/shm"
)

// A message about a region has passSize bytes: region (4), what to do with it (4), size
// (8). The region's descriptor travels with it, unless it is to be unmapped. The plugin
// answers with one byte, 0 or 1, and the text of the error. Only one is under way at a
// time.
const passSize = 16

// What a message asks of the plugin.
const (
	mapReadOnly uint32 = iota
	mapWritable
	unmapRegion
)

// pass sends the descriptor of a region to the plugin and waits until it is mapped.
func (l *lifeline) pass(ctx context.Context, f *os.File, region uint32, size int64, writable bool) error {
	what := mapReadOnly
	if writable {
		what = mapWritable
	}
	return l.ask(ctx, region, what, size, unix.UnixRights(int(f.Fd())))
}

// takeBack waits until the plugin has unmapped a region.
func (l *lifeline) takeBack(ctx context.Context, region uint32) error {
	return l.ask(ctx, region, unmapRegion, 0, nil)
}

// ask sends a message about a region and waits until the plugin has done it.
func (l *lifeline) ask(ctx context.Context, region, what uint32, size int64, rights []byte) error {
	select {
	case <-l.said:
		return errUnasked
	default:
	}
	var msg [passSize]byte
	order.PutUint32(msg[0:], region)
	order.PutUint32(msg[4:], what)
	order.PutUint64(msg[8:], uint64(size))
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

// receive does what comes in about regions until the host is gone.
func receive(conn *net.UnixConn, s *server) {
	var msg [passSize]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := conn.ReadMsgUnix(msg[:], oob)
		if err != nil || n == 0 {
			return
		}
		answer := []byte{0}
		if err := s.obey(msg[:n], oob[:oobn]); err != nil {
			text := err.Error()
			answer = append([]byte{1}, text[:min(len(text), maxAnswer-1)]...)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// obey maps or unmaps the region of one message.
func (s *server) obey(msg, oob []byte) error {
	if len(msg) != passSize {
		return fmt.Errorf("transport: message of %d bytes about a region", len(msg))
	}
	region, what := order.Uint32(msg[0:]), order.Uint32(msg[4:])
	if what == unmapRegion {
		return s.dropRegion(region)
	}
	f, err := descriptor(oob)
	if err != nil {
		return err
	}
	defer f.Close()
	writable := what == mapWritable
	view, err := shm.Map(f, int64(order.Uint64(msg[8:])), writable)
	if err != nil {
		return err
	}
	return s.addRegion(region, view, writable)
}

// descriptor takes the one file out of a control message.
func descriptor(oob []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("transport: a region came without its descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("transport: a region came without its descriptor"), err)
	}
	return os.NewFile(uintptr(fds[0]), "region"), nil
}
