//go:build unix

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/wire"
)

// lifeline is the host's end of a socket pair whose other end a plugin inherits. When
// either process ends, however it ends, the other one reads the end of the stream. On
// Linux it also carries descriptors of memory regions.
type lifeline struct {
	conn *net.UnixConn
	gone chan struct{} // closed when the plugin's end is
	said chan []byte   // what the plugin answers; room for one, as one request is under way at a time
}

// newLifeline also returns the plugin's end, which the caller closes after the start.
func newLifeline() (*lifeline, *os.File, error) {
	// The lock keeps a process started elsewhere from inheriting the descriptors
	// before they are marked.
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("transport: socketpair: %w", err)
	}
	host, plugin := os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline")
	conn, err := wire.Lifeline(host)
	if err != nil {
		return nil, nil, errors.Join(err, plugin.Close())
	}
	l := &lifeline{conn: conn, gone: make(chan struct{}), said: make(chan []byte, 1)}
	go l.listen()
	return l, plugin, nil
}

// listen reads answers until the plugin's end is closed, or this one.
func (l *lifeline) listen() {
	defer close(l.gone)
	var buf [wire.MaxPassAnswer]byte
	for {
		n, err := l.conn.Read(buf[:])
		if err != nil || n == 0 {
			return
		}
		select {
		case l.said <- bytes.Clone(buf[:n]):
		default: // nobody asked
		}
	}
}

// hold has nothing to do: a process has inherited its end.
func (*lifeline) hold(*os.Process) {}

// close ends the lifeline and waits for listen to end.
func (l *lifeline) close() error {
	err := l.conn.Close()
	<-l.gone
	return err
}

// extraFiles are the files that a plugin inherits as wire.LifelineFD and wire.ControlFD.
func extraFiles(lifeline, control *os.File) []*os.File {
	if control == nil {
		return []*os.File{lifeline}
	}
	return []*os.File{lifeline, control}
}

// keepDescriptors makes sure that a process started from now on inherits no descriptor
// that this process got from its own parent. Go marks those that it opens itself.
func keepDescriptors() {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // no such folder: a container without it
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// isolate puts a plugin into a process group of its own, so that an interrupt typed at
// the terminal reaches the host alone, which decides.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
