package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
)

// runner starts a plugin's process for go-plugin and waits for its end. go-plugin's own
// runner takes a process for running as long as anybody has its output open, so that a
// child which the plugin left behind would hide its death and hold up the host for ever;
// and it stops reading standard output at the first long line. Here the end of the
// process counts, the rest of its process group ends with it, and what it prints beside
// the handshake is read and dropped.
type runner struct {
	cmd            *exec.Cmd
	secure         *goplugin.SecureConfig
	stdout, stderr *os.File
	ended          chan struct{} // closed when the process has ended
	err            error         // how it ended, once ended is closed
}

var _ gorunner.Runner = (*runner)(nil)

func newRunner(cmd *exec.Cmd, secure *goplugin.SecureConfig) *runner {
	return &runner{cmd: cmd, secure: secure, ended: make(chan struct{})}
}

// adopt gives the runner to go-plugin, which passes its part of the environment in ask.
// What the command has already goes last, and so wins.
func (r *runner) adopt(_ hclog.Logger, ask *exec.Cmd, _ string) (gorunner.Runner, error) {
	r.cmd.Env = append(ask.Env, r.cmd.Env...)
	return r, nil
}

// drainTime is how long the output of a process is still read after its end, should
// somebody else have it open.
const drainTime = 200 * time.Millisecond

// Start implements runner.Runner. The executable must have the checksum.
func (r *runner) Start(context.Context) error {
	ok, err := r.secure.Check(r.cmd.Path)
	if err != nil {
		return fmt.Errorf("transport: checksum: %w", err)
	}
	if !ok {
		return goplugin.ErrChecksumsDoNotMatch
	}
	out, err := pipe(&r.stdout)
	if err != nil {
		return err
	}
	defer out.Close()
	errs, err := pipe(&r.stderr)
	if err != nil {
		return errors.Join(err, r.closePipes())
	}
	defer errs.Close()
	r.cmd.Stdout, r.cmd.Stderr = out, errs
	if err := r.cmd.Start(); err != nil {
		return errors.Join(err, r.closePipes())
	}
	go r.watch()
	return nil
}

// watch notices the end of the process.
func (r *runner) watch() {
	r.err = awaitEnd(r.cmd)
	limit := time.Now().Add(drainTime)
	// Where pipes know no deadline, go-plugin reads on for as long as they are open.
	_, _ = r.stdout.SetReadDeadline(limit), r.stderr.SetReadDeadline(limit)
	close(r.ended)
}

// gone reports whether the process has ended.
func (r *runner) gone() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Wait implements runner.Runner. go-plugin calls it once it has read all output.
func (r *runner) Wait(context.Context) error {
	<-r.ended
	return errors.Join(r.err, r.closePipes())
}

// Kill implements runner.Runner.
func (r *runner) Kill(context.Context) error {
	if err := r.cmd.Cancel(); err != nil && !r.gone() {
		return err
	}
	return nil
}

// Stdout implements runner.Runner.
func (r *runner) Stdout() io.ReadCloser { return &firstLine{ReadCloser: r.stdout, left: maxFirstLine} }

// Stderr implements runner.Runner.
func (r *runner) Stderr() io.ReadCloser { return r.stderr }

// Name implements runner.Runner.
func (r *runner) Name() string { return r.cmd.Path }

// ID implements runner.Runner.
func (r *runner) ID() string {
	if r.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// Diagnose implements runner.Runner; startError has the explanations.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (r *runner) closePipes() (err error) {
	for _, f := range []*os.File{r.stdout, r.stderr} {
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

// firstLine reads one line, the handshake, and drops what follows.
type firstLine struct {
	io.ReadCloser
	left int // bytes that the line may still have; 0 after its end
}

// Read implements io.Reader.
func (l *firstLine) Read(b []byte) (int, error) {
	for l.left == 0 {
		if n, err := l.ReadCloser.Read(b); err != nil || n == 0 {
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
