package trainer_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/plugins/builtin"
	"github.com/seed98097648/tune/trainer"
)

// killsVariable is the environment variable with the number of kills over each transport, for a longer run
// of TestKilledPluginsChangeNothing than everyday's.
const killsVariable = "TUNE_TEST_KILLS"

// TestKilledPluginsChangeNothing kills plugins at random moments of a run, over both
// transports, and compares every loss and the parameters at its end with those of a run
// of as many steps in peace. Nothing stays behind in this process.
func TestKilledPluginsChangeNothing(t *testing.T) {
	const everyday = 20
	mem := plugintest.Memory(t)
	for name, opts := range map[string]transport.Options{"doorbell": {}, "portable": {Portable: true}, "summed": {},
		"one process": {}} {
		t.Run(name, func(t *testing.T) {
			kills := everyday
			if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil && (name == "portable" || name == "one process") {
				kills = n // of a transport, over the doorbell where calls go in series, too
			}
			large := func(c *trainer.EngineConfig) {
				c.Batch = 40          // so that some kills come during a call
				if name == "summed" { // by kernels that add, or again by those that are kept from it
					c.Batch, c.Accumulate = 30, 3
				}
			}
			seed := uint64(time.Now().UnixNano())
			scan, dir := plugintest.Scan, plugintest.Dir(t)
			if name == "one process" {
				scan, dir = builtIn, ownFolder(t)
			}
			reg := scan(t, opts)
			killed := newRun(t, mem, all(t, reg), large).steps(1)
			files, goroutines, start := openFiles(t), runtime.NumGoroutine(), time.Now()
			k := killPlugins(dir, kills, seed, func() uint64 { return health(reg).Calls })
			t.Cleanup(k.wait)
			for !k.over() {
				killed.steps(1)
			}
			took := time.Since(start)
			killed.steps(2) // to notice the last ones
			h := health(reg)
			t.Logf("seed %d: %d kills in %.1f s and %d steps: %d calls, %d of them made again, %d deaths noticed",
				seed, len(k.killed), took.Seconds(), len(killed.losses), h.Calls, h.Repeats, h.Deaths)
			if h.Fallbacks != 0 || h.Deaths != uint64(kills) {
				t.Errorf("%d fall-backs and %d deaths, want none and %d", h.Fallbacks, h.Deaths, kills)
			}
			for range 6000 {
				if openFiles(t) <= files && runtime.NumGoroutine() <= goroutines {
					break
				}
				time.Sleep(50 * time.Millisecond) // the output of a process is read a while longer
			}
			if f, g := openFiles(t), runtime.NumGoroutine(); f > files || g > goroutines {
				t.Errorf("%d open files and %d goroutines, %d and %d before", f, g, files, goroutines)
			}
			want := newRun(t, mem, all(t, scan(t, opts)), large).steps(len(killed.losses))
			sameBits(t, killed, want)
		})
	}
}

// builtIn returns the plugins that the test binary has, in a process of their own.
func builtIn(t testing.TB, opts transport.Options) *core.Registry {
	t.Helper()
	reg := core.NewRegistry()
	if err := builtin.Add(context.Background(), reg, opts.OpenBuiltIn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	return reg
}

// ownFolder is that of the test binary.
func ownFolder(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(exe)
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// health is the sum over all kernels.
func health(reg *core.Registry) (sum core.Health) {
	for _, k := range reg.Kernels() {
		h := k.(core.HealthReporter).Health()
		sum.Calls += h.Calls
		sum.Deaths += h.Deaths
		sum.Repeats += h.Repeats
		sum.Fallbacks += h.Fallbacks
	}
	return sum
}

// killer sends SIGKILL to running plugins, each time to a random one at a random moment.
type killer struct {
	stop, ended chan struct{}
	killed      map[process]bool // to be read once the killer is over
}

// killPlugins kills so many processes that run plugins of dir. Between two of them the
// run makes some calls, as calls counts them: where the machine is so busy that a plugin
// takes longer to start than to be killed, it would be given up for dying again and
// again on one call.
func killPlugins(dir string, kills int, seed uint64, calls func() uint64) *killer {
	k := &killer{make(chan struct{}), make(chan struct{}), map[process]bool{}}
	rng := rand.New(rand.NewPCG(seed, 0))
	go func() {
		defer close(k.ended)
		for next := uint64(0); len(k.killed) < kills; {
			select {
			case <-k.stop:
				return
			case <-time.After(time.Duration(rng.IntN(int(10 * time.Millisecond)))):
			}
			if calls() < next {
				continue
			}
			all := pluginProcesses(dir)
			if len(all) == 0 {
				continue
			}
			p := all[rng.IntN(len(all))]
			if !k.killed[p] && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
				k.killed[p] = true
				// The one that may be at hand, and the start of another; asked for now, as it took time to find the process.
				next = calls() + 2
			}
		}
	}()
	return k
}

// over reports whether all are killed.
func (k *killer) over() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}

// wait ends the killing.
func (k *killer) wait() {
	close(k.stop)
	<-k.ended
}

// process is one that runs a plugin.
type process struct {
	pid     int
	started string // in clock ticks after the machine, as numbers are used again
}

// pluginProcesses lists those that run an executable of dir and are our children.
func pluginProcesses(dir string) []process {
	var all []process
	// Not by Glob, which reads the whole folder of each process: a tenth of the time that the kills take.
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err != nil || filepath.Dir(exe) != dir {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// After the name in parentheses come the state, the parent and, 22nd of all, the
		// time of the start.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 19 && fields[1] == strconv.Itoa(os.Getpid()) {
			all = append(all, process{pid, fields[19]})
		}
	}
	return all
}
