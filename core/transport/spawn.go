package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// spawned is the process of a plugin, as seen from its output and its end. go-plugin
// takes a process for running as long as anybody has its output open: a child that the
// plugin left behind would hide its death, and hold up the host for ever. Here the end
// of the process counts, and the rest of its process group ends with it.
type spawned struct {
	cmd            *exec.Cmd
	awaitEnd       func(*exec.Cmd) error // see platform
	stdout, stderr *os.File
	ended          chan struct{} // closed when the process has ended
	err            error         // how it ended, once ended is closed
	alone          bool          // it had ended by itself when go-plugin found fault with its handshake
}

// drainTime is how long the output of a process is still read after its end, should
// somebody else have it open.
const drainTime = 200 * time.Millisecond

// spawn starts the process.
func (s *spawned) spawn() error {
	stdout, err := pipe(&s.stdout)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := pipe(&s.stderr)
	if err != nil {
		return errors.Join(err, s.closePipes())
	}
	defer stderr.Close()
	s.cmd.Stdout, s.cmd.Stderr = stdout, stderr
	if err := s.cmd.Start(); err != nil {
		return errors.Join(err, s.closePipes())
	}
	go s.watch()
	return nil
}

// watch notices the end of the process.
func (s *spawned) watch() {
	s.err = s.awaitEnd(s.cmd)
	limit := time.Now().Add(drainTime)
	// Where pipes know no deadline, go-plugin reads on for as long as they are open.
	_, _ = s.stdout.SetReadDeadline(limit), s.stderr.SetReadDeadline(limit)
	close(s.ended)
}

// endsWithin waits for the end of the process, and reports whether it came.
func (s *spawned) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.ended:
		return true
	case <-t.C:
		return false
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process, when nobody reads its output any more.
func (s *spawned) wait() error {
	<-s.ended
	return errors.Join(s.err, s.closePipes())
}

func (s *spawned) closePipes() (err error) {
	for _, f := range []*os.File{s.stdout, s.stderr} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// pipe makes a pipe; the end to read from is put where it is to be.
func pipe(read **os.File) (write *os.File, err error) {
	if *read, write, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("transport: pipe for the output of a plugin: %w", err)
	}
	return write, nil
}

// maxFirstLine bounds the line of the handshake, in bytes.
const maxFirstLine = 16 << 10

// firstLine reads one line, the handshake, and drops what follows: go-plugin would stop
// reading at the first line that is too long for it, and the plugin at its next word.
type firstLine struct {
	io.ReadCloser
	left int // bytes that the line may still have; 0 after its end

	dropped *atomic.Int64 // bytes after it
}

// Read implements io.Reader.
func (l *firstLine) Read(b []byte) (int, error) {
	for l.left == 0 {
		n, err := l.ReadCloser.Read(b)
		l.dropped.Add(int64(n))
		if err != nil {
			return 0, err
		}
	}
	n, err := l.ReadCloser.Read(b[:min(len(b), l.left)])
	l.left -= n
	if bytes.IndexByte(b[:n], '\n') >= 0 {
		l.left = 0
	}
	return n, err
}
