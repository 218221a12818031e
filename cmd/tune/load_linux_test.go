package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
)

// loadVariable is the environment variable with how long TestAServerUnderLoad lasts, such as 10m, where that is to be
// longer than everyday's.
const loadVariable = "TUNE_TEST_LOAD"

// TestAServerUnderLoad: 64 clients ask a server with two adapters and little room for texts of random lengths,
// leave in the middle and make mistakes, in peace and while a plugin is killed every second. Every request gets
// what it should, every text is what it is alone, and at the end neither blocks nor goroutines nor memory are
// left behind.
func TestAServerUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	lasts := 2 * time.Second
	if set := os.Getenv(loadVariable); set != "" {
		var err error
		if lasts, err = time.ParseDuration(set); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	model := testdata.Shared(t, "data", "models", "stories260K")
	text := testdata.Shared(t, "data", "datasets", "text", "tinyshakespeare.txt")
	args := []string{"serve", "--model", model, "--port", "0", "--quiet", "--max-requests", "256",
		"--cache-tokens", "1536", "--max-body", "64KiB"}
	for _, adapter := range []string{"q_proj,v_proj", "all-linear"} {
		if err := tuneIn(t, dir, "--kernels", "none", "--model", model, "--data", text, "--seq", "64", "--steps", "4",
			"--lr", "1e-2", "--lora-rank", "4", "--lora-target", adapter, "--out", adapter).Run(); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--adapter", adapter+"="+filepath.Join(dir, adapter))
	}
	models := []string{"stories260K", "q_proj,v_proj", "all-linear"}
	t.Run("in peace", func(t *testing.T) {
		t.Parallel()
		underLoad(t, dir, slices.Clip(args), models, lasts, false)
	})
	t.Run("plugins killed", func(t *testing.T) {
		t.Parallel()
		underLoad(t, dir, append(slices.Clip(args), "--kernels", "all", "--plugin-dir", pluginDir(t)), models, lasts, true)
	})
}

func underLoad(t *testing.T, dir string, args, models []string, lasts time.Duration, kill bool) {
	s := startLoaded(t, dir, args)
	l := newClients(t, s.url, models)
	l.alone()
	before, start := s.metrics(t), time.Now()
	var all, others sync.WaitGroup
	var end atomic.Bool
	kills, quarter := 0, map[string]float64{}
	// However slow the machine, clients have made some requests when the first quarter is over, and more at the end.
	others.Go(func() {
		for tick := time.NewTicker(time.Second); !end.Load(); {
			<-tick.C
			if len(quarter) == 0 && time.Since(start) >= lasts/4 && l.made() >= clients {
				quarter = s.metrics(t)
			}
			if kill && s.killPlugin() {
				kills++
			}
			end.Store(t.Failed() ||
				time.Since(start) >= lasts && len(quarter) > 0 && l.made() >= 4*clients && (kills > 0 || !kill))
		}
	})
	for i := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for !end.Load() {
				l.ask(random)
			}
		})
	}
	all.Wait()
	others.Wait()
	l.client.CloseIdleConnections()
	after := s.settled(t, before)
	t.Logf("%s of %d clients: %s; %d plugins killed", lasts, clients, l.report(), kills)
	const mega = 1 << 20
	t.Logf("memory %.1f MiB before, %.1f after a quarter of the time, %.1f at the end; %g goroutines before, "+
		"%g at the end; %g of %g blocks in use", before[resident]/mega, quarter[resident]/mega, after[resident]/mega,
		before[goroutines], after[goroutines], after[blocks], after["tune_cache_blocks"])
	if most := quarter[resident] + 32*mega; after[resident] > most {
		t.Errorf("%g bytes of memory at the end, %g after a quarter of the time", after[resident], quarter[resident])
	}
	l.complete(t, after)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.said.Wait()
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What the server's metrics are called.
const (
	resident   = "process_resident_memory_bytes"
	goroutines = "go_goroutines"
	blocks     = "tune_cache_blocks_used"
)

// loaded is a server as a process.
type loaded struct {
	cmd  *exec.Cmd
	url  string
	said sync.WaitGroup
}

func startLoaded(t *testing.T, dir string, args []string) *loaded {
	t.Helper()
	s := &loaded{cmd: exec.Command("tune", args...)}
	s.cmd.Dir, s.cmd.Env = dir, environment(t)
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() }) // in case the test fails before it ends
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "tune: ready: ") {
		if url, ok := strings.CutPrefix(lines.Text(), "tune: listening at "); ok {
			s.url = url
		}
	}
	if s.url == "" {
		t.Fatalf("the server does not say where it listens: %v", s.cmd.Wait())
	}
	s.said.Go(func() {
		for lines.Scan() {
			if strings.Contains(lines.Text(), "level=ERROR") {
				t.Errorf("the server says %q", lines.Text())
			}
		}
	})
	return s
}

// metrics returns the numbers of the server's metrics by their names without what is in braces, or with it.
func (s *loaded) metrics(t *testing.T) map[string]float64 {
	all := map[string]float64{}
	r, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Error(err)
		return all
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(([a-z_]+)(?:\{.*\})?) (\S+)$`).FindAllStringSubmatch(string(b), -1) {
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Error(err)
		}
		all[m[1]], all[m[2]] = v, v
	}
	return all
}

// settled waits until the server has nothing to do, and as many goroutines as before.
func (s *loaded) settled(t *testing.T, before map[string]float64) map[string]float64 {
	var m map[string]float64
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if m = s.metrics(t); m[blocks] == 0 && m["tune_texts_running"] == 0 && m["tune_texts_waiting"] == 0 &&
			m[goroutines] <= before[goroutines] {
			return m
		}
	}
	t.Errorf("at the end %g texts run, %g wait, %g blocks are in use and there are %g goroutines; there were %g",
		m["tune_texts_running"], m["tune_texts_waiting"], m[blocks], m[goroutines], before[goroutines])
	return m
}

// killPlugin kills one of the server's plugins and reports whether there was one.
func (s *loaded) killPlugin() bool {
	children := childrenOf(s.cmd.Process.Pid)
	return len(children) > 0 && syscall.Kill(children[rand.IntN(len(children))], syscall.SIGKILL) == nil
}

// childrenOf returns the processes that a process has started and that run.
func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name in parentheses come the state and the parent.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if pid, _ := strconv.Atoi(strings.Split(path, "/")[2]); len(fields) > 1 && fields[0] != "Z" &&
			fields[1] == fmt.Sprint(parent) {
			children = append(children, pid)
		}
	}
	return children
}
