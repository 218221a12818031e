package generate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

const paged = "npu_fused_paged_attention"

// served is an engine whose model has the plugin of a cache, as a process.
func served(t *testing.T, opts transport.Options) (e *generate.Engine, reg *core.Registry, vocab int) {
	t.Helper()
	dir, mem := testdata.Shared(t, "data", "models", "stories15M"), plugintest.Memory(t)
	m, err := models.Load(dir, mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	reg = plugintest.Scan(t, opts)
	if e, err = generate.NewEngine(m, loadTokenizer(t, dir), mem, generate.EngineConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, paged, core.Inference()); err != nil {
		t.Fatal(err)
	}
	return e, reg, m.Vocab()
}

// health is that of both kernels.
func health(t *testing.T, reg *core.Registry) (sum core.Health) {
	t.Helper()
	ks, err := reg.Lookup(paged)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range ks {
		h := core.HealthOf(k)
		sum.Calls += h.Calls
		sum.Deaths += h.Deaths
		sum.Copies += h.Copies
		sum.Fallbacks += h.Fallbacks
	}
	return sum
}

// writeAll has an engine write all texts at once.
func writeAll(t *testing.T, e *generate.Engine, vocab int) []written {
	t.Helper()
	prompts, n := asked(vocab)
	texts := make([]written, len(prompts))
	var all sync.WaitGroup
	for i, p := range prompts {
		all.Go(func() {
			var err error
			if texts[i], err = write(t.Context(), e, p, n[i], nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return texts
}

// kill kills the process of the plugin; it returns false if there is none.
func kill(t *testing.T) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		exe, _ := os.Readlink(l)
		if strings.TrimSuffix(exe, " (deleted)") != filepath.Join(plugintest.Dir(t), paged) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			return true
		}
	}
	return false
}

// TestKilledPluginsChangeNoText kills the plugin of the cache while eight texts are written. The cache is the
// host's as much as the plugin's, and a call that is made again gives the same. Nothing is copied on the way.
func TestKilledPluginsChangeNoText(t *testing.T) {
	for name, opts := range map[string]transport.Options{"doorbell": {}, "portable": {Portable: true}} {
		t.Run(name, func(t *testing.T) {
			e, reg, vocab := served(t, opts)
			want := writeAll(t, e, vocab)
			if h := health(t, reg); h.Copies != 0 && !opts.Portable || h.Deaths != 0 || h.Calls == 0 {
				t.Fatalf("in peace: %+v", h)
			}
			const kills = 8
			over := make(chan struct{})
			go func() {
				defer close(over)
				for n, before := 0, uint64(0); n < kills && t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
					// Not before another call was answered: dying again and again on one, it would be given up.
					if now := health(t, reg).Calls; now > before+2 && kill(t) {
						n, before = n+1, now
					}
				}
			}()
			for killing := true; killing; {
				select {
				case <-over:
					killing = false // once more, to notice the last one
				default:
				}
				for i, w := range writeAll(t, e, vocab) {
					if !slices.Equal(w.tokens, want[i].tokens) {
						t.Errorf("text %d: %v, in peace %v", i, w.tokens, want[i].tokens)
					}
				}
			}
			if h := health(t, reg); h.Deaths != kills || h.Fallbacks != 0 || h.Copies != 0 && !opts.Portable {
				t.Errorf("%d kills, and %+v", kills, h)
			}
		})
	}
}

// TestATextGoesOnWithoutItsPlugin: one that does not start any more is replaced by the reference, which is counted.
func TestATextGoesOnWithoutItsPlugin(t *testing.T) {
	e, reg, vocab := served(t, transport.Options{})
	want := writeAll(t, e, vocab)
	killing, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-killing:
				return
			default:
				kill(t)
			}
		}
	}()
	for try := 0; try < 100 && health(t, reg).Fallbacks == 0; try++ { // it may be killed too seldom to be given up
		for i, w := range writeAll(t, e, vocab) {
			if !slices.Equal(w.tokens, want[i].tokens) {
				t.Errorf("text %d: %v, with the plugin %v", i, w.tokens, want[i].tokens)
			}
		}
	}
	close(killing)
	<-stopped
	if h := health(t, reg); h.Fallbacks == 0 {
		t.Errorf("no call was answered by the reference: %+v", h)
	}
}
