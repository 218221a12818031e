package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/ctest"
)

// onEachPath runs a test over the doorbell, where there is one, and over RPC, and with a
// bare plugin, in C.
func onEachPath(t *testing.T, test func(t *testing.T, o Options)) {
	onGoPaths(t, test)
	t.Run("bare", func(t *testing.T) {
		t.Setenv(barePlugin, compileBare(t))
		test(t, quiet(Options{}))
	})
}

// bare is the plugin in C, once it is compiled.
var bare struct {
	once       sync.Once
	executable []byte
}

// compileBare returns an executable of the plugin in C, which belongs to the test.
func compileBare(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	compile := func() { ctest.Compile(t, path, "core/transport/testdata/moody.c") }
	bare.once.Do(func() {
		compile()
		var err error
		if bare.executable, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	})
	if bare.executable == nil {
		compile() // which says again why it cannot
	}
	if err := os.WriteFile(path, bare.executable, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// barePlugin names the plugin that open opens, if it is not to be the one in Go.
const barePlugin = "TUNE_TEST_PLUGIN"

// onGoPaths is onEachPath without the plugin in C.
func onGoPaths(t *testing.T, test func(t *testing.T, o Options)) {
	for _, portable := range []bool{false, true} {
		name := "doorbell"
		if portable {
			name = "portable"
		} else if nativeLacks() != nil {
			continue
		}
		t.Run(name, func(t *testing.T) { test(t, quiet(Options{Portable: portable})) })
	}
}

// onGRPC runs a test with a plugin that is asked by gRPC, as those are that know no stream.
func onGRPC(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("gRPC", func(t *testing.T) { test(t, quiet(Options{Portable: true, grpcOnly: true})) })
}

// quiet keeps logs and caches of a test to itself, and waits for plugins for as long as eventually does: where a
// hundred threads want to run, a process may take longer than 10 s to start.
func quiet(o Options) Options {
	o.StartTimeout = cmp.Or(o.StartTimeout, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	o.CacheDir = "off"
	o.Env = append(o.Env, countDir)
	o.OutputSize = 1 << 26
	return o
}

// opened is a plugin of the tests, with what they look at.
type opened struct {
	*plugin
	norm *kernel // rms_norm
	moe  *kernel // nil in C
	host Memory
}

func open(t testing.TB, o Options) opened {
	t.Helper()
	path := os.Getenv(barePlugin)
	if path == "" {
		path = pluginPath(t, "plugin")
	}
	p, err := o.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	host, err := o.NewMemory("host", 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	pl := p.(*plugin)
	got := opened{plugin: pl, norm: pl.kernels[0], host: host}
	if len(pl.kernels) > 1 {
		got.moe = pl.kernels[1]
	}
	return got
}

// kill ends a process at once.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// canRemove skips a test where the file of a running program stays.
func canRemove(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps the file of a running program")
	}
}

// pid returns the plugin's process, which must have been started.
func (p opened) pid() int { return p.proc.cmd.Process.Pid }

func normFacts() core.Facts {
	return core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 24, Eps: 1e-5, Cast: core.CastBeforeWeight}
}

func moeFacts(experts int) core.Facts {
	return core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Intermediate: 4, Activation: "silu",
		Layout: core.PerExpert, Experts: experts, TopK: 2, Routing: core.RoutingNormalized}
}

const tokens = 5

// makeCall returns a call with random inputs, from a fixed seed, in memory of in and
// outputs in memory of out; nil means the heap.
func makeCall(t testing.TB, op core.Op, pass core.Pass, f core.Facts, in, out core.Memory) *core.Call {
	t.Helper()
	c, err := core.NewCall(op, pass, f)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(args []core.Arg, to []core.Tensor, m core.Memory) {
		i := 0
		for _, a := range args {
			for range a.Count {
				to[i] = makeTensor(t, rng, a, m, f)
				i++
			}
		}
	}
	fill(c.Sig.In, c.In, in)
	fill(c.Sig.Out, c.Out, out)
	return c
}

func makeTensor(t testing.TB, rng *rand.Rand, a core.Arg, m core.Memory, f core.Facts) core.Tensor {
	t.Helper()
	x := core.NewTensor(a.DType, a.Shape.Bind(tokens, tokens)...)
	if m != nil {
		b, err := m.Alloc(len(x.Data))
		if err != nil {
			t.Fatal(err)
		}
		x.Data = b
	}
	switch a.DType {
	case core.Int32:
		elems := x.Int32s()
		for i := range elems {
			elems[i] = int32((i*3 + i/2) % f.Experts)
		}
	case core.Float32:
		elems := x.Float32s() // once: the race detector looks at the whole of it at each call
		for i := range elems {
			elems[i] = float32(math.Abs(rng.NormFloat64())) + 0.1
		}
	}
	return x
}

// wantReference checks that the outputs of a call hold what the reference gives for
// its inputs, bit for bit: the kernels of the tests are the references.
func wantReference(t *testing.T, c *core.Call) {
	t.Helper()
	want := makeCall(t, c.Op, c.Pass, c.Facts, nil, nil)
	if err := core.Run(context.Background(), reference.Kernel(c.Op), want); err != nil {
		t.Fatal(err)
	}
	for i := range want.In {
		if !bytes.Equal(c.In[i].Data, want.In[i].Data) {
			t.Errorf("input %d was changed", i)
		}
	}
	for i := range want.Out {
		if !bytes.Equal(c.Out[i].Data, want.Out[i].Data) {
			t.Errorf("output %d differs from the reference", i)
		}
	}
}

// lockedBuffer is a buffer that is written in the background.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// short is a StartTimeout that is waited for: no longer than it has to be, and long enough
// for a plugin that starts on a machine that is busy, or stands still for a while.
const short = 7 * time.Second

// patience is the StartTimeout of a plugin that is to fail with such an error: short if it
// is that of the time, and otherwise the usual one.
func patience(says string) time.Duration {
	if strings.Contains(says, "within") || strings.Contains(says, "in time") {
		return short
	}
	return 0
}

// eventually waits for something that happens in another process.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 30_000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not happen in 5 minutes", what)
}
