package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/shm"
)

// process is one run of a plugin's executable. It is used by one goroutine at a time.
type process struct {
	opts    Options
	path    string
	cmd     *exec.Cmd
	cancel  context.CancelFunc // ends the process and what it started
	client  *goplugin.Client
	kernels proto.KernelsClient
	life    *lifeline
	child   *os.File // the plugin's end of the lifeline, until it is started
	link    link
	words   *lastWords
	bound   map[binding]uint32
	shared  map[uint32]bool // regions that the process has mapped
	closed  chan struct{}   // closed by close
}

// binding is what a handle stands for.
type binding struct {
	kernel uint32
	pass   core.Pass
	facts  core.Facts
}

// startProcess runs the executable, which must have the checksum, and connects to it.
func startProcess(ctx context.Context, opts Options, path, checksum string) (*process, error) {
	sum, err := hex.DecodeString(checksum)
	if err != nil {
		return nil, fmt.Errorf("transport: checksum of %s: %w", path, err)
	}
	// go-plugin puts its socket here. Nobody connects a second time, so that the
	// folder can go once the connection stands, and never stays behind.
	dir, err := os.MkdirTemp("", "tune-")
	if err != nil {
		return nil, fmt.Errorf("transport: folder for the socket of %s: %w", path, err)
	}
	defer os.RemoveAll(dir)
	p, err := newProcess(opts, path, sum, dir)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.cancel)
	err = p.connect(ctx)
	if !stop() && err == nil {
		err = ctx.Err() // cancelled at the last moment: the process is being ended
	}
	if err != nil {
		return nil, p.startError(ctx, err)
	}
	return p, nil
}

// newProcess prepares everything short of starting.
func newProcess(opts Options, path string, sum []byte, dir string) (*process, error) {
	life, child, err := newLifeline()
	if err != nil {
		return nil, err
	}
	linkName := linkRPC
	var bell link
	var control *os.File
	if !opts.Portable {
		linkName = linkDoorbell
		if bell, control, err = newDoorbell(life, opts.Spin); err != nil {
			return nil, errors.Join(err, child.Close(), life.close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{opts: opts, path: path, cmd: exec.CommandContext(ctx, path), cancel: cancel,
		life: life, child: child, link: bell, words: &lastWords{},
		bound: map[binding]uint32{}, shared: map[uint32]bool{}, closed: make(chan struct{})}
	isolate(p.cmd)
	p.cmd.ExtraFiles = extraFiles(child, control)
	p.cmd.Env = append(os.Environ(), envLink+"="+linkName, envSpin+"="+opts.Spin.String(),
		envThreads+"="+strconv.Itoa(opts.Threads), envHost+"="+strconv.Itoa(os.Getpid()),
		goplugin.EnvUnixSocketDir+"="+dir)
	log := &logAdapter{log: opts.Logger.With("plugin", path)}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake(),
		Plugins:          goplugin.PluginSet{service: &glue{}},
		Cmd:              p.cmd,
		SkipHostEnv:      true, // it is in Cmd.Env
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SecureConfig:     &goplugin.SecureConfig{Checksum: sum, Hash: sha256.New()},
		StartTimeout:     opts.StartTimeout,
		Logger:           log,
		Stderr:           p.words,
		SyncStdout:       p.words,
		SyncStderr:       p.words,
		// A local socket in a folder of ours needs no secrecy; a TCP port does.
		AutoMTLS: runtime.GOOS == "windows",
		// An idle connection would be closed and opened again.
		GRPCDialOptions: []grpc.DialOption{grpc.WithIdleTimeout(0)},
	})
	return p, nil
}

// connect starts the process and shakes hands.
func (p *process) connect(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	conn, err := p.client.Client()
	if err != nil {
		return err
	}
	raw, err := conn.Dispense(service)
	if err != nil {
		return err
	}
	kernels, ok := raw.(proto.KernelsClient)
	if !ok {
		return fmt.Errorf("transport: go-plugin made a %T", raw)
	}
	p.kernels = kernels
	if p.link == nil {
		p.link = newRPCLink(kernels)
	}
	// The first RPC waits for the connection.
	ctx, cancel := context.WithTimeout(ctx, p.opts.StartTimeout)
	defer cancel()
	_, err = kernels.Describe(ctx, &proto.DescribeRequest{}, grpc.WaitForReady(true))
	return err
}

// start starts the process on a thread that lives as long as the process: where the
// operating system is told to end a plugin together with its parent, it means the
// thread that started it.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := p.client.Start()
		started <- err
		<-p.closed
	}()
	err := <-started
	if p.child != nil {
		err = errors.Join(err, p.child.Close())
	}
	return err
}

// describe asks the plugin who it is.
func (p *process) describe() (*proto.DescribeReply, error) {
	return rpc(p, p.kernels.Describe, &proto.DescribeRequest{})
}

// bind returns the handle of one pass of a kernel, asking for it the first time.
func (p *process) bind(b binding) (uint32, error) {
	if h, ok := p.bound[b]; ok {
		return h, nil
	}
	facts, err := json.Marshal(b.facts)
	if err != nil {
		return 0, fmt.Errorf("transport: facts %v: %w", b.facts, err)
	}
	r, err := rpc(p, p.kernels.Bind, &proto.BindRequest{Kernel: b.kernel, Backward: b.pass == core.Backward, Facts: facts})
	if err != nil {
		return 0, err
	}
	p.bound[b] = r.GetHandle()
	return r.GetHandle(), nil
}

// share makes sure that the process has mapped the region.
func (p *process) share(r *shm.Region, writable bool) error {
	if p.shared[r.ID()] {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.StartTimeout)
	defer cancel()
	if err := p.link.share(ctx, r, writable); err != nil {
		return p.explain(ctx, err)
	}
	p.shared[r.ID()] = true
	return nil
}

// rpc makes one RPC to the process. It may take as long as starting may. A caller that
// gives up would leave it unclear what the plugin knows, so it cannot.
func rpc[Q, A any](p *process, f func(context.Context, Q, ...grpc.CallOption) (A, error), q Q) (A, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.StartTimeout)
	defer cancel()
	a, err := f(ctx, q)
	if err != nil {
		err = p.explain(ctx, err)
	}
	return a, err
}

// explain turns the error of a request to the process into its death, or into what
// the plugin said.
func (p *process) explain(ctx context.Context, err error) error {
	s, isStatus := status.FromError(err)
	switch {
	case ctx.Err() != nil:
		return p.died(fmt.Sprintf("it did not answer within %v", p.opts.StartTimeout))
	case p.gone() || s.Code() == codes.Unavailable:
		return p.died("its process ended")
	case isStatus:
		return errors.New(s.Message())
	}
	return err
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.life.gone:
		return true
	default:
		return p.client.Exited()
	}
}

// Waiting for an answer is cut into slices, between which the host looks whether the
// process lives, the caller still waits and the deadline is not over.
const waitSlice = 5 * time.Millisecond

// cancelGrace is what a call may still take after its caller gave up, before the
// process is stopped: until then it may be writing outputs.
const cancelGrace = 200 * time.Millisecond

// call runs the first n bytes of the link's record. An error says that there is no
// answer: the process died, was stopped for exceeding the deadline, or ctx is done.
func (p *process) call(ctx context.Context, n int) (answer, error) {
	p.link.start(n)
	deadline := time.Now().Add(p.opts.CallTimeout)
	given := false // the caller gave up
	for {
		gone := p.gone() // asked before the wait: an answer given before death counts
		a, ok := p.link.wait(waitSlice)
		switch {
		case ok && a.broken == nil && ctx.Err() != nil:
			return answer{}, ctx.Err()
		case ok && a.broken == nil:
			return a, nil
		case ok && !gone && status.Code(a.broken) != codes.Unavailable:
			return answer{}, p.died("a call could not be delivered: " + a.broken.Error())
		case ok || gone:
			return answer{}, p.died("its process ended during a call")
		}
		now := time.Now()
		if !given && ctx.Err() != nil {
			given = true
			if d := now.Add(cancelGrace); d.Before(deadline) {
				deadline = d
			}
		}
		if now.Before(deadline) {
			continue
		}
		if given {
			p.end()
			return answer{}, ctx.Err()
		}
		return answer{}, p.died(fmt.Sprintf("a call took longer than %v", p.opts.CallTimeout))
	}
}

// stopped reports whether end or close has been called.
func (p *process) stopped() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// died ends what is left of the process and says what became of it. The error wraps
// core.ErrPluginExited; no error of a process that can go on does.
func (p *process) died(why string) error {
	p.end()
	if s := p.cmd.ProcessState; s != nil {
		why += " (" + s.String() + ")"
	}
	if w := p.words.String(); w != "" {
		why += ", its last words: " + w
	}
	return fmt.Errorf("%w: %s", core.ErrPluginExited, why)
}

// end stops the process at once and releases what belongs to it. It may be called
// again.
func (p *process) end() {
	p.cancel()
	p.close()
}

// close lets the process end by itself, and makes sure that it does.
func (p *process) close() {
	if p.stopped() {
		return
	}
	close(p.closed)
	p.client.Kill()
	p.cancel()
	err := p.life.close()
	if p.link != nil {
		err = errors.Join(err, p.link.close())
	}
	if err != nil {
		p.opts.Logger.Debug("closing a plugin", "plugin", p.path, "error", err)
	}
}
