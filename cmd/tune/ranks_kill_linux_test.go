package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/trainer/checkpoint"
)

// killsVariable names the environment variable that says how often each rank is killed; without it, rankKills times.
const (
	killsVariable = "TUNE_TEST_KILLS"
	rankKills     = 3
)

// TestKilledRanksLoseNothing kills each of two ranks at random moments of a run's life: while the ranks meet, train,
// save a checkpoint or the model, or leave. All of them end, and the same command goes on to the same bits. On one MPI
// each rank has its share of the optimizer.
func TestKilledRanksLoseNothing(t *testing.T) {
	t.Parallel()
	kills := rankKills
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", killsVariable, err)
		}
	}
	for _, l := range launchers(t) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			k := &rankKiller{launcher: l, t: t, dir: t.TempDir(), others: []int{1, 4}, args: append(trainable(t, "llama"),
				"--kernels", "none", "--batch", "2", "--grad-accum", "4", "--steps", "30", "--save-every", "2", "--keep", "0")}
			if l.name == "mpirun.mpich" {
				k.args = append(k.args, "--shard-optimizer")
			}
			start := time.Now()
			k.losses = l.steps(t, 2, append(k.args, "--out", k.whole())...)
			life := time.Since(start) // on a machine as busy as it is
			seed := uint64(start.UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for killed := 0; killed < 2*kills; {
				if k.run(killed%2, time.Duration(rng.Int64N(int64(life)))) {
					killed++
				}
				k.look()
			}
			k.end()
			t.Logf("%d kills in %v of a run; %d runs came to their end; resumed by other numbers of ranks: %v left",
				2*kills, life.Round(time.Millisecond), k.finished, k.others)
		})
	}
}

// rankKiller has runs of two ranks killed, one after the other.
type rankKiller struct {
	launcher
	t        *testing.T
	dir      string
	args     []string
	losses   []float64 // of a run that was not killed
	others   []int     // numbers of ranks by which a checkpoint is to be gone on from yet
	newest   int       // step of the newest checkpoint
	finished int       // runs
	last     string    // what the last run has written
}

func (k *rankKiller) whole() string { return filepath.Join(k.dir, "whole") }
func (k *rankKiller) out() string   { return filepath.Join(k.dir, fmt.Sprint("out-", k.finished)) }

// next is the command that begins the run, or goes on with it.
func (k *rankKiller) next() []string {
	if k.newest > 0 {
		return append(k.args, "--resume", "--out", k.out())
	}
	return append(k.args, "--out", k.out())
}

// run kills a rank a while after the start, and reports whether it was there to be killed.
func (k *rankKiller) run(rank int, moment time.Duration) (killed bool) {
	k.t.Helper()
	mark := "TUNE_TEST_MARK=" + k.dir
	cmd := k.command(k.t, 2, k.next()...)
	cmd.Env = append(cmd.Env, mark)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	time.Sleep(moment)
	for _, pid := range rankProcess(k.t, mark, rank) {
		killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
	}
	err := cmd.Wait()
	k.last = text.String()
	switch complete := k.complete(); {
	case err != nil && !killed:
		k.t.Fatalf("%v of which nothing was killed: %v\n%s", cmd.Args, err, &text)
	case err == nil && !complete:
		k.t.Fatalf("%v ends well without a model, rank %d killed after %v: %v\n%s", cmd.Args, rank, moment, killed, &text)
	}
	if !eventually(k.t, func() bool { return len(processesOf(k.t, mark, "")) == 0 }) {
		k.t.Fatalf("a rank goes on after rank %d was killed:\n%s", rank, &text)
	}
	return killed
}

// complete reports whether the run's folder is a model.
func (k *rankKiller) complete() bool {
	_, err := os.Stat(filepath.Join(k.out(), "config.json"))
	return err == nil
}

// look judges what a kill has left.
func (k *rankKiller) look() {
	k.t.Helper()
	steps, err := checkpoint.Steps(k.out())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.t.Fatal(err)
	}
	last := 0
	for _, step := range steps {
		if err := checkpoint.Verify(checkpoint.StepDir(k.out(), step)); err != nil {
			k.t.Error(err)
		}
		last = step
	}
	if last < k.newest {
		k.t.Errorf("the newest checkpoint is %d, after one of step %d", last, k.newest)
	}
	k.newest = last
	switch {
	case k.complete():
		sameFiles(k.t, k.out(), k.whole())
		k.finished++
		k.newest = 0
	case last > 0 && last < len(k.losses) && len(k.others) > 0:
		n := k.others[0]
		k.others = k.others[1:]
		got := k.steps(k.t, n, append(k.args, "--resume="+checkpoint.StepDir(k.out(), last), "--out",
			filepath.Join(k.dir, fmt.Sprint("other-", n)))...)
		if d := differ(k.t, got, k.losses[last:]); !(d <= 1e-5) {
			k.t.Errorf("%d ranks from step %d on: losses differ by %g from those of a run that was not killed", n, last, d)
		}
	}
}

// end lets the last run come to its end.
func (k *rankKiller) end() {
	if k.newest > 0 {
		k.steps(k.t, 2, k.next()...)
		sameFiles(k.t, k.out(), k.whole())
	}
}

// rankProcess returns the process of a rank, if it is there.
func rankProcess(t *testing.T, mark string, rank int) []int {
	t.Helper()
	return processesOf(t, mark, fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank), fmt.Sprintf("PMI_RANK=%d", rank))
}

// processesOf returns the processes of tune with a variable, and one of others, in their environment.
func processesOf(t *testing.T, mark string, others ...string) []int {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range environs {
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), mark+"\x00") {
			continue
		}
		var pid int
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		program, _, _ := strings.Cut(string(name), "\x00")
		if _, err := fmt.Sscanf(path, "/proc/%d/environ", &pid); err != nil || filepath.Base(program) != "tune" {
			continue
		}
		for _, other := range others {
			if other == "" || strings.Contains(string(b), other+"\x00") {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
