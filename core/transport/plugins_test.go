package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/seed98097648/tune/core"
	pluginside "github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/wire"
)

// The test binary is also every plugin of the tests: which one depends on the name
// under which it is started. See pluginPath.
func roles() map[string]func() {
	return map[string]func(){
		"plugin":     func() { pluginside.Serve("test_kernels", "1.2.3", testKernels()...) },
		"adds":       serveAdding,
		"keeps":      serveKeeping,
		"no_kernels": func() { pluginside.Serve("empty", "1.0.0") },
		"prints":     func() { fmt.Println("hello, I am something else") },
		"exits":      func() { os.Exit(3) },
		"prints_and_exits": func() {
			fmt.Println("licence server 2")
			time.Sleep(10 * time.Millisecond)
			fmt.Fprintln(os.Stderr, "no licence")
			os.Exit(3)
		},
		"loads_loud": func() {
			pluginside.ServeLoaded("test_kernels", "1.2.3", func() ([]core.Kernel, error) {
				fmt.Println("hello, I am a library")
				return testKernels(), nil
			})
		},
		"loads_nothing": func() {
			pluginside.ServeLoaded("test_kernels", "1.2.3", func() ([]core.Kernel, error) {
				fmt.Println("hello, I am half a library")
				return nil, errors.New("the other half is missing")
			})
		},
		"colours":        func() { fmt.Println("\x1b[2Jhello\x07") },
		"panics":         func() { panic("no such device") },
		"hangs":          func() { time.Sleep(time.Hour) },
		"hangs_later":    func() { pluginside.Serve("late", "1", moody{info: func() { select {} }}) },
		"dies_later":     func() { pluginside.Serve("late", "1", moody{info: func() { os.Exit(5) }}) },
		"other_version":  func() { greetAs(ProtocolVersion + 1); select {} },
		"other_cookie":   serveAnother,
		"host_of_plugin": hostOfPlugin,
		"host_of_bare":   hostOfBare,

		"dies_in_bind": func() {
			pluginside.Serve("bound", "1",
				moody{Kernel: reference.Kernel(core.RMSNorm), info: everySecond(func() { os.Exit(7) })})
		},
		"hangs_in_bind": func() {
			pluginside.Serve("bound", "1",
				moody{Kernel: reference.Kernel(core.RMSNorm), info: everySecond(func() { select {} })})
		},
		"changes": func() {
			kernels := testKernels()
			if times("started") > 1 {
				slices.Reverse(kernels)
			}
			pluginside.Serve("test_kernels", "1.2.3", kernels...)
		},
		"stays":        stays,
		"endless_line": func() { endless(os.Stdout) },
		"only_greets":  func() { greetAs(ProtocolVersion) },
		"child":        func() { time.Sleep(time.Hour) },
	}
}

func TestMain(m *testing.M) {
	all := roles()
	maps.Copy(all, platformRoles())
	if os.Getenv(builtInRole) != "" {
		serveTwo()
		return
	}
	if play, ok := all[strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")]; ok {
		play()
		return
	}
	// A race-detecting plugin would sleep for a second when it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// pluginPath returns an executable that plays the role.
func pluginPath(t testing.TB, role string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, link := filepath.Join(t.TempDir(), role), os.Symlink
	if runtime.GOOS == "windows" { // where symbolic links take a privilege, and others cannot be removed while one runs
		path, link = path+".exe", copyFile
	}
	if err := link(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}

// greetAs shakes hands and does no more.
func greetAs(version int) {
	way := wire.GreetRPC
	if os.Getenv(wire.EnvLink) == wire.LinkDoorbell {
		way = wire.GreetDoorbell
	}
	fmt.Printf("1|%d|unix|/nowhere|%s\n", version, way)
}

// stays is a plugin that does not end when the host says so. By RPC it is one of go-plugin's
// own library, which other languages may have, too.
func stays() {
	if os.Getenv(wire.EnvLink) == wire.LinkDoorbell {
		staysAtTheDoorbell()
	} else {
		goplugin.Serve(&goplugin.ServeConfig{HandshakeConfig: handshake(), GRPCServer: goplugin.DefaultGRPCServer,
			Plugins: goplugin.PluginSet{service: library{}}})
	}
	time.Sleep(time.Hour)
}

// staying is how that plugin describes itself.
const staying = "name=stays\nversion=1\nkernel=rms_norm\ndtypes=float32\n"

// library is a plugin's side as go-plugin's library has it.
type library struct {
	goplugin.NetRPCUnsupportedPlugin
	proto.UnimplementedKernelsServer
}

func (l library) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	proto.RegisterKernelsServer(s, l)
	return nil
}

func (library) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is no host")
}

func (library) Ask(context.Context, *proto.Request) (*proto.Answer, error) {
	return &proto.Answer{Text: staying}, nil
}

// serveAnother is a go-plugin that is not one of ours.
func serveAnother() {
	h := handshake()
	h.MagicCookieKey = "ANOTHER_PLUGIN"
	goplugin.Serve(&goplugin.ServeConfig{HandshakeConfig: h, GRPCServer: goplugin.DefaultGRPCServer,
		Plugins: goplugin.PluginSet{service: glue{}}})
}

// hostOfPlugin is a program that opens plugins, calls each with the site that it is
// given, and is then killed.
func hostOfPlugin() {
	for _, portable := range []bool{false, true} {
		p, err := quiet(Options{Portable: portable}).Open(context.Background(), os.Args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.(*plugin).proc.cmd.Process.Pid)
		c := makeCall(new(testing.T), core.RMSNorm, core.Forward, normFacts(), nil, nil)
		c.Site = os.Args[2]
		go func() { _ = p.Kernels()[0].Forward(context.Background(), c) }() // it may never end
	}
	time.Sleep(time.Hour)
}

// countDir names the folder in which plugins count what they did: they do not
// remember it when they are started again.
const countDir = "TUNE_TEST_DIR"

// testKernels are the references, with behaviours that a call's site asks for.
func testKernels() []core.Kernel {
	var ks []core.Kernel
	for _, op := range []core.Op{core.RMSNorm, core.MoEExperts} {
		ks = append(ks, moody{Kernel: reference.Kernel(op)})
	}
	return ks
}

// moody is a kernel that does what the site of a call says before it works.
type moody struct {
	core.Kernel
	info func() // what happens first when it is asked for its Info
}

func (m moody) Info() core.Info {
	if m.info != nil {
		m.info()
	}
	return m.Kernel.Info()
}

func (m moody) Supports(f core.Facts) error {
	if err := harmWhenAsked(f); err != nil {
		return err
	}
	return m.Kernel.Supports(f)
}

func (m moody) Forward(ctx context.Context, c *core.Call) error {
	if c.Site == "nothing" {
		return nil
	}
	if err := behave(c); err != nil {
		return err
	}
	return m.Kernel.Forward(ctx, c)
}

func (m moody) Backward(ctx context.Context, c *core.Call) error {
	if err := behave(c); err != nil {
		return err
	}
	return m.Kernel.Backward(ctx, c)
}

func behave(c *core.Call) error {
	for _, t := range c.Out {
		for i := range t.Data {
			t.Data[i] = 0xA5 // a repeated call must not depend on what a dead one left
		}
	}
	switch c.Site {
	case "die once":
		if times(c.Site) == 1 {
			os.Exit(7)
		}
	case "die":
		times(c.Site)
		os.Exit(7)
	case "hang once":
		if times(c.Site) == 1 {
			select {}
		}
	case "hang":
		times(c.Site)
		time.Sleep(time.Hour)
	case "slow":
		times(c.Site)
		time.Sleep(slowCall)
	case "until told": // see tell
		times(c.Site)
		for !isTold() {
			time.Sleep(time.Millisecond)
		}
	case "write input":
		c.In[0].Data[0]++
	case "fill memory":
		times(c.Site)
		for held := [][]byte(nil); ; {
			b := make([]byte, 32<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
			runtime.KeepAlive(held)
		}
	case "colour":
		return errors.New("\x1b[2Jnothing to see\x07")
	case "error":
		return errors.New("the device is on fire")
	case "threads":
		return fmt.Errorf("GOMAXPROCS is %d", runtime.GOMAXPROCS(0))
	case "print":
		fmt.Fprintln(os.Stderr, "a word from the kernel")
	case "panic":
		panic("index out of luck")
	case "a worker's panic":
		panic(workerPanic{})
	case "not supported":
		return fmt.Errorf("%w: only even days", core.ErrNotSupported)
	default:
		harm(c.Site)
	}
	return nil
}

// slowCall is the least that a call takes that is to be slow.
const slowCall = 100 * time.Millisecond

// told is the file for which calls wait that take until they are told to end.
func told() string { return filepath.Join(os.Getenv(countDir), "told") }

func isTold() bool {
	_, err := os.Stat(told())
	return err == nil
}

// times counts a call of a behaviour and returns how many there have been.
func times(what string) int {
	dir := os.Getenv(countDir)
	if dir == "" {
		return 0
	}
	f, err := os.OpenFile(filepath.Join(dir, what), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		panic(err)
	}
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	return int(info.Size())
}

// workerPanic is what package simd raises a worker's panic as.
type workerPanic struct{}

func (workerPanic) Error() string { return "worker out of luck\n\ngoroutine 7 [running]:\nits.stack()" }
func (workerPanic) Cause() any    { return "worker out of luck" }

// builtInRole makes the test binary a program that has plugins built in.
const builtInRole = "TUNE_TEST_BUILT_IN"

// serveTwo is a program with two plugins built in.
func serveTwo() {
	names, asked := pluginside.BuiltIn()
	if !asked {
		os.Exit(9)
	}
	var offers []pluginside.Offer
	for _, name := range names {
		op := map[string]core.Op{"norms": core.RMSNorm, "experts": core.MoEExperts, "ropes": core.RoPE}[name]
		offers = append(offers, pluginside.Offer{Name: name, Version: "1",
			Kernels: []core.Kernel{renamed{reference.Kernel(op), name}}})
	}
	pluginside.ServeBuiltIn(offers...)
}

type renamed struct {
	core.Kernel
	name string
}

func (r renamed) Info() core.Info {
	i := r.Kernel.Info()
	i.Name, i.Version = r.name, "1"
	return i
}

func (r renamed) Forward(ctx context.Context, c *core.Call) error {
	if err := behave(c); err != nil {
		return err
	}
	return r.Kernel.Forward(ctx, c)
}
