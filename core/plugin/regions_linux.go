package plugin

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// receive does what comes in about regions until the host is gone.
func receive(conn *net.UnixConn, s *server) {
	var msg [wire.PassSize]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := conn.ReadMsgUnix(msg[:], oob)
		if err != nil || n == 0 {
			return
		}
		answer := []byte{0}
		if err := s.obey(msg[:n], oob[:oobn]); err != nil {
			text := err.Error()
			answer = append([]byte{1}, text[:min(len(text), wire.MaxPassAnswer-1)]...)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// obey maps or unmaps the region of one message.
func (s *server) obey(msg, oob []byte) error {
	if len(msg) != wire.PassSize {
		return fmt.Errorf("transport: message of %d bytes about a region", len(msg))
	}
	region, what := wire.Order.Uint32(msg[0:]), wire.Order.Uint32(msg[4:])
	if what == wire.UnmapRegion {
		return s.dropRegion(region)
	}
	f, err := descriptor(oob)
	if err != nil {
		return err
	}
	defer f.Close()
	writable := what == wire.MapWritable
	view, err := shm.Map(f, int64(wire.Order.Uint64(msg[8:])), writable)
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
