package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// process is one run of a plugin's executable. It is used by one goroutine at a time.
type process struct {
	opts    Options
	path    string
	cmd     *exec.Cmd
	cancel  context.CancelFunc // ends the process and what it started
	spawned *spawned
	client  *goplugin.Client
	config  *goplugin.ClientConfig // which the client fills in
	control control
	about   []core.Manifest // who the plugins say they are
	life    *lifeline
	child   *os.File // the plugin's end of the lifeline, until it is started
	link    link
	words   *lastWords
	printed *atomic.Int64 // bytes that it has printed
	bound   map[binding]uint32
	shared  []*shm.Region // regions that the process has mapped: a handful
	closed  chan struct{} // closed by close
	stayed  bool          // it had not ended when it had been told to for so long that it was killed
}

// startProcess runs the executable of an instance, which must have its checksum, and connects to it.
func startProcess(ctx context.Context, i *instance) (*process, error) {
	exe, err := openExecutable(i.opts.how, i.path, i.opts.notes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("transport: start %s: %w: %s", i.path, err, missing)
	}
	if err != nil {
		return nil, explainFiles(err)
	}
	defer exe.Close()
	return startExecutable(ctx, i.opts, exe, i.checksum, i.names...)
}

// startExecutable runs an open file, which must have the checksum, see mustHave, and connects to it. The names are
// those of the plugins that it is to be, if it is this program.
func startExecutable(ctx context.Context, opts Options, exe *executable, checksum string,
	names ...string) (*process, error) {
	// The plugin puts its socket here, where only this user can connect. Nobody connects
	// later, so that the folder can go once the connections stand, and never stays
	// behind.
	dir, remove, err := makeSocketFolder()
	if err != nil {
		return nil, explainFiles(fmt.Errorf("transport: folder for the socket of %s: %w", exe.path, err))
	}
	defer func() {
		if err := remove(); err != nil {
			opts.Logger.Debug("removing the folder of a plugin's socket", "plugin", exe.path, "error", err)
		}
	}()
	p, err := newProcess(opts, exe, checksum, dir, names)
	if outOfFiles(err) {
		err = explainFiles(fmt.Errorf("transport: start %s: %w", exe.path, err))
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.cancel)
	err = p.connect(names)
	if !stop() && err == nil {
		err = ctx.Err() // cancelled at the last moment: the process is being ended
	}
	if err != nil {
		return nil, p.startError(ctx, err)
	}
	return p, nil
}

// newProcess prepares everything short of starting.
func newProcess(opts Options, exe *executable, checksum, dir string, names []string) (*process, error) {
	secret, certificate, err := opts.encryption()
	if err != nil {
		return nil, err
	}
	life, child, err := newLifeline()
	if err != nil {
		return nil, err
	}
	linkName := wire.LinkRPC
	var bell link
	var control *os.File
	if opts.how.doorbell != nil {
		linkName = wire.LinkDoorbell
		if bell, control, err = opts.how.doorbell(life, opts.Spin); err != nil {
			return nil, errors.Join(err, child.Close(), life.close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{opts: opts, path: exe.path, cmd: exec.CommandContext(ctx, exe.abs), cancel: cancel,
		life: life, child: child, link: bell, words: &lastWords{}, printed: &atomic.Int64{},
		bound: map[binding]uint32{}, closed: make(chan struct{})}
	opts.how.isolate(p.cmd)
	p.spawned = &spawned{cmd: p.cmd, awaitEnd: opts.how.awaitEnd, ended: make(chan struct{})}
	p.cmd.ExtraFiles = extraFiles(child, control)
	p.cmd.Env = append(opts.environment(linkName), certificate...)
	if len(names) > 0 {
		p.cmd.Env = append(p.cmd.Env, wire.EnvBuiltIn+"="+strings.Join(names, ","))
	}
	log := newLogger(opts.Logger.With("plugin", exe.path))
	// What the plugin prints is logged, and the end of it remembered.
	heard := io.MultiWriter(counter{p.printed}, p.words)
	printed := io.MultiWriter(heard, log.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}))
	p.config = &goplugin.ClientConfig{
		HandshakeConfig:  handshake(),
		Plugins:          goplugin.PluginSet{service: glue{}},
		RunnerFunc:       p.newStarter(exe, checksum, dir),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir},
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{wire.GreetRPC, wire.GreetDoorbell},
		StartTimeout:     opts.StartTimeout,
		Logger:           log,
		Stderr:           heard, // go-plugin logs it already
		SyncStdout:       printed,
		SyncStderr:       printed,
		TLSConfig:        secret, // to which go-plugin adds the certificate that the plugin sends
		// An idle connection would be closed and opened again.
		GRPCDialOptions: []grpc.DialOption{grpc.WithIdleTimeout(0),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage))},
	}
	p.client = goplugin.NewClient(p.config)
	return p, nil
}

// connect starts the process, shakes hands and asks who it is: each of the built-in plugins of these names, or the one
// plugin that the executable is.
func (p *process) connect(names []string) error {
	if err := p.start(); err != nil {
		return err
	}
	if p.link == nil {
		if err := p.dial(); err != nil {
			return err
		}
	} else if p.client.Protocol() != wire.GreetDoorbell {
		return errNoRPCHere
	}
	if bell, ok := p.link.(interface{ meet(process int) }); ok && p.opts.MaxCPUs == 0 {
		bell.meet(p.cmd.Process.Pid)
	}
	p.control = control{p.link, p.gone}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		err := p.request("its kernels", func(ctx context.Context) error {
			m, err := p.control.describe(ctx, name)
			p.about = append(p.about, m)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dial connects to a plugin that speaks gRPC, and to its plain stream of requests if it has one.
func (p *process) dial() error {
	if p.client.Protocol() != wire.GreetRPC {
		return errNoDoorbellHere
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
	p.link = &rpcLink{kernels: kernels, buf: make([]byte, wire.MaxRecord), done: make(chan answer, 1)}
	if p.opts.grpcOnly {
		return nil
	}
	at, err := p.client.Start() // which it has: this is its address
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.StartTimeout)
	defer cancel()
	stream, err := dialStream(ctx, at, p.config.TLSConfig, p.opts.CallTimeout)
	if err != nil { // what is wrong with the process, gRPC finds out as well
		p.opts.Logger.Info("requests to a plugin go by gRPC, which is slower", "plugin", p.path, "reason", err)
	}
	if stream != nil {
		p.link = stream
	}
	return nil
}

// start starts the process on a thread that lives as long as the process: where the
// operating system is told to end a plugin together with its parent, it means the
// thread that started it. If the thread's own settings cannot be restored, it ends, so that no
// other goroutine runs with them.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		var changed error
		undo, err := limitProcessors(p.opts.MaxCPUs)
		if err == nil {
			precise := p.opts.how.coarseTimers()
			punctual := p.sayIfSlow("its handshake", func() (string, bool) { return "being started", false })
			_, err = p.client.Start()
			punctual()
			changed = errors.Join(precise(), undo())
		}
		started <- err
		<-p.closed
		if changed == nil {
			runtime.UnlockOSThread()
		} else if p.cmd.Process != nil {
			<-p.spawned.ended // which would end with the thread in the middle of its goodbye
		}
	}()
	err := <-started
	if p.child != nil {
		err = errors.Join(err, p.child.Close())
	}
	return err
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	return isClosed(p.life.gone) || isClosed(p.spawned.ended)
}

// stopped reports whether end or close has been called.
func (p *process) stopped() bool { return isClosed(p.closed) }

// died ends what is left of the process and says what became of it. The error wraps
// core.ErrPluginExited; no error of a process that can go on does. Its state is said only if it
// ended by itself: that of one which is ended here is a signal that nobody else has sent.
func (p *process) died(why string) error {
	gone := p.gone()
	p.end()
	why += p.state(gone)
	if w := p.words.String(); w != "" {
		why += ", its last words: " + w
	}
	return fmt.Errorf("%w: %s%s", core.ErrPluginExited, why, p.limitNote())
}

// state says how a process has ended that had gone by itself.
func (p *process) state(gone bool) string {
	if s := p.cmd.ProcessState; s != nil && gone {
		return " (" + s.String() + ")"
	}
	return ""
}

// endGrace is how long a process that has hung up gets until the system says how it ended.
const endGrace = 200 * time.Millisecond

// ended is died for a process that ended by itself. The first sign of that may be a broken
// connection: how the process ended is known a moment later.
func (p *process) ended(why string) error {
	p.spawned.endsWithin(endGrace)
	return p.died(why)
}

// end stops the process at once and releases what belongs to it. It may be called
// again.
func (p *process) end() {
	p.cancel()
	p.close()
}

// maxMessage bounds what a plugin can say at once over gRPC, in bytes.
const maxMessage = 1 << 20

// What a process gets to end by itself: as much as go-plugin gives it, and more than that
// before it is killed.
const (
	hangUpGrace = 2 * time.Second
	closeGrace  = 3 * time.Second
)

// close lets the process end by itself, and makes sure that it does.
func (p *process) close() {
	if p.stopped() {
		return
	}
	t := time.AfterFunc(closeGrace, p.cancel)
	if at := p.client.ReattachConfig(); at != nil && at.Protocol == wire.GreetRPC {
		p.client.Client() // which Kill would do, and forget the connection where the process has ended, see Wait
	}
	close(p.closed)
	var err error
	if p.link != nil {
		err = p.link.hangUp(p.spawned.ended, hangUpGrace)
		p.stayed = p.opts.how.doorbell != nil && !p.gone()
	}
	p.client.Kill()
	t.Stop()
	p.cancel()
	err = errors.Join(err, p.life.close())
	if p.link != nil {
		err = errors.Join(err, p.link.close())
	}
	if err != nil {
		p.opts.Logger.Debug("closing a plugin", "plugin", p.path, "error", err)
	}
}
