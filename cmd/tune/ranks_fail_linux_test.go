package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
)

// rankRun is a run of two ranks that takes very long, unless something happens to it.
type rankRun struct {
	t        *testing.T
	launcher launcher
	cmd      *exec.Cmd
	dir      string // where it was started
	out      string
	mark     string
	args     []string
	log      string // a file with what all ranks write
}

// differently is a shell that starts the command of each rank: the second has a variable more, and what is in $SECOND
// after the others' arguments.
const differently = `case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in 1) export ` + bugVariable + `="$BUG"
exec "$@" $SECOND;; esac
exec "$@"`

// beginRanks starts a run that saves all the time, in which the second rank has a few flags of its own.
func beginRanks(t *testing.T, l launcher, out, second string, flags ...string) *rankRun {
	t.Helper()
	r := &rankRun{t: t, launcher: l, dir: t.TempDir(), out: out, mark: "TUNE_TEST_MARK=" + out,
		log: filepath.Join(t.TempDir(), "log")}
	r.args = append(trainable(t, "llama"), "--batch", "2", "--grad-accum", "2", "--save-every", "2", "--steps", "1000000",
		"--no-eval", "--schedule", "constant", "--out", out)
	if r.args = append(r.args, flags...); len(flags) == 0 {
		r.args = append(r.args, "--kernels", "none")
	}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	tune := l.command(t, 1, r.args...)
	line := append([]string{"sh", "-c", differently, "sh"}, tune.Args...)
	r.cmd = exec.Command(l.name, append(append(l.args, "2"), line...)...)
	r.cmd.Env = append(tune.Env, r.mark, "BUG="+r.bug(), "SECOND="+second)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = r.dir, log, log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // in case the test fails before it ends
		for _, pid := range append(processesOf(t, r.mark, ""), r.cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return r
}

func (r *rankRun) bug() string { return r.log + ".bug" }

// text is what the ranks have written so far.
func (r *rankRun) text() string {
	b, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Error(err)
	}
	return string(b)
}

// until waits for something of a run that goes on, or of what it leaves.
func (r *rankRun) until(what string, so func() bool) {
	r.t.Helper()
	over := func() bool { return r.cmd.ProcessState == nil && !holdsFiles(r.cmd.Process.Pid) }
	if !eventually(r.t, func() bool { return so() || over() }) || !so() {
		r.t.Fatalf("%s did not happen; the run has ended: %v\n%s", what, over(), r.text())
	}
}

func (r *rankRun) saved() bool { return hasCheckpoints(r.out) }

// ends waits for all ranks to end, which must have failed with these words.
func (r *rankRun) ends(words ...string) {
	r.t.Helper()
	ranks := processesOf(r.t, r.mark, "")
	if err := r.cmd.Wait(); err == nil {
		r.t.Errorf("the run ended well:\n%s", r.text())
	}
	r.until("the end of all ranks", func() bool {
		return len(processesOf(r.t, r.mark, "")) == 0 && !slices.ContainsFunc(ranks, holdsFiles)
	})
	for _, want := range words {
		if !strings.Contains(r.text(), want) {
			r.t.Errorf("nothing is said of %q:\n%s", want, r.text())
		}
	}
}

// holdsFiles reports whether a process has its files, with their locks, still: it gives up its environment before.
func holdsFiles(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// goesOn has two ranks go on for two steps from the newest checkpoint, which must be whole.
func (r *rankRun) goesOn(flags ...string) {
	r.t.Helper()
	steps, err := checkpoint.Steps(r.out)
	if err != nil || len(steps) == 0 {
		r.t.Fatalf("no checkpoint is left: %v\n%s", err, r.text())
	}
	for _, step := range steps {
		if err := checkpoint.Verify(checkpoint.StepDir(r.out, step)); err != nil {
			r.t.Error(err)
		}
	}
	last := steps[len(steps)-1]
	args := append(r.args, "--resume", "--steps", fmt.Sprint(last+2))
	if got := r.launcher.steps(r.t, 2, append(args, flags...)...); len(got) != 2 {
		r.t.Errorf("the resumed run has %d steps, want 2", len(got))
	}
}

// hostName is that of the machine.
func hostName(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// eachLauncher runs a test with each MPI, beside others: ranks wait for each other.
func eachLauncher(t *testing.T, f func(t *testing.T, l launcher)) {
	for _, l := range launchers(t) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			f(t, l)
		})
	}
}

// rankTimeout is how long a rank waits for another that does not come: long enough for one that starts on a machine
// that is busy, or stands still for a while.
const rankTimeout = "15s"

// TestARankThatHangsEndsAll stops each rank: the other says how long it has waited, and for what.
func TestARankThatHangsEndsAll(t *testing.T) {
	t.Parallel()
	eachLauncher(t, func(t *testing.T, l launcher) {
		for stopped := range 2 {
			t.Run(fmt.Sprint("rank ", stopped), func(t *testing.T) {
				t.Parallel() // they wait
				r := beginRanks(t, l, filepath.Join(t.TempDir(), "out"), "", "--kernels", "none",
					"--rank-timeout", rankTimeout)
				r.until("a checkpoint", r.saved)
				pids := rankProcess(t, r.mark, stopped)
				if len(pids) != 1 {
					t.Fatalf("rank %d is %d processes", stopped, len(pids))
				}
				if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				r.ends(fmt.Sprintf("rank %d (%s): ", 1-stopped, hostName(t)),
					" has not finished for "+rankTimeout+": another rank")
				r.goesOn("--rank-timeout", "10m")
			})
		}
	})
}

// TestAFullDiskOfTheFirstRankCostsNoCheckpoint: it says so and goes on, until there is room again.
func TestAFullDiskOfTheFirstRankCostsNoCheckpoint(t *testing.T) {
	t.Parallel()
	eachLauncher(t, func(t *testing.T, l launcher) {
		disk, full := smallDisk(t, t.TempDir())
		r := beginRanks(t, l, filepath.Join(disk, "out"), "")
		r.until("a checkpoint", r.saved)
		r.until("a warning", func() bool {
			full() // again, as a checkpoint that was removed meanwhile leaves room for another
			return strings.Contains(r.text(), "no checkpoint was saved, the run goes on")
		})
		r.signal(0, syscall.SIGKILL)
		r.ends("no space left on device")
		if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
			t.Fatal(err)
		}
		r.goesOn()
	})
}

// TestAFullDiskAtTheEndOfRanksCostsNoModel: the first rank saves it elsewhere, and all ranks end.
func TestAFullDiskAtTheEndOfRanksCostsNoModel(t *testing.T) {
	t.Parallel()
	eachLauncher(t, func(t *testing.T, l launcher) {
		disk, full := smallDisk(t, t.TempDir())
		r := beginRanks(t, l, filepath.Join(disk, "out"), "", "--save-every", "0", "--kernels", "none")
		r.until("a step", func() bool { return strings.Contains(r.text(), "loss") })
		full()
		for rank := range 2 {
			r.signal(rank, syscall.SIGINT)
		}
		r.ends("rank 0 ("+hostName(t)+"): ", "no space left on device", "the model is in "+filepath.Join(r.dir, "out-2"))
		wantModel(t, filepath.Join(r.dir, "out-2"))
	})
}

// TestAPluginOfOneRankFails has it happen to a plugin of the second rank alone.
func TestAPluginOfOneRankFails(t *testing.T) {
	t.Parallel()
	plugins := filepath.Dir(ownFolder(t, "bug_on_demand"))
	second := "rank 1 (" + hostName(t) + "): "
	for _, tt := range []struct {
		name, file, second string
		strict             bool
		words              []string
	}{
		{"it ends", "ends", "", true, []string{second, "kernel bug_on_demand", "it died 3 times on one call"}},
		{"it is wrong", "wrong", "", true, []string{second, "bug_on_demand", "strict: "}},
		{"it is missing", "", "--plugin-dir " + t.TempDir(), false, []string{second +
			`--kernels: core: unknown kernel "bug_on_demand"`}},
		{"it is not looked for", "", "--kernels none", false, []string{`--kernels: "bug_on_demand" and "none"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachLauncher(t, func(t *testing.T, l launcher) {
				flags := []string{"--kernels", "bug_on_demand", "--plugin-dir", plugins, "--plugin-env", bugVariable,
					"--check-every", "1"}
				if tt.strict {
					flags = append(flags, "--strict")
				}
				r := beginRanks(t, l, filepath.Join(t.TempDir(), "out"), tt.second, flags...)
				if tt.file != "" {
					r.until("a checkpoint", r.saved)
					r.befall(tt.file)
				}
				if r.ends(tt.words...); tt.file != "" {
					r.goesOn()
				}
			})
		})
	}
}

// signal sends one to a rank. A process that is about to become a plugin of it looks like it for a moment, and may
// have ended by then.
func (r *rankRun) signal(rank int, s syscall.Signal) {
	r.t.Helper()
	for _, pid := range rankProcess(r.t, r.mark, rank) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.t.Fatal(err)
		}
	}
}

// befall has something happen to the plugin of the second rank.
func (r *rankRun) befall(what string) {
	r.t.Helper()
	if err := os.WriteFile(r.bug(), []byte(what), 0o666); err != nil {
		r.t.Fatal(err)
	}
}

// TestAPluginThatIsWrongOnOneRankIsTakenOffOnAll, and the run goes on to its end.
func TestAPluginThatIsWrongOnOneRankIsTakenOffOnAll(t *testing.T) {
	t.Parallel()
	plugins := filepath.Dir(ownFolder(t, "bug_on_demand"))
	eachLauncher(t, func(t *testing.T, l launcher) {
		r := beginRanks(t, l, filepath.Join(t.TempDir(), "out"), "", "--kernels", "bug_on_demand", "--plugin-dir", plugins,
			"--plugin-env", bugVariable, "--check-every", "1", "--sync-check", "1")
		r.until("a checkpoint", r.saved)
		r.befall("wrong")
		r.until("the end of the plugin's use", func() bool { return strings.Contains(r.text(), "is taken off") })
		for rank := range 2 {
			r.signal(rank, syscall.SIGINT)
		}
		if err := r.cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, r.text())
		}
		run, err := journal.Read(r.out)
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Incidents) != 1 || !run.Incidents[0].TakenOff ||
			!strings.Contains(run.Incidents[0].Error, "rank 1 ("+hostName(t)+")") {
			t.Errorf("the journal has %+v", run.Incidents)
		}
		if b, err := os.ReadFile(filepath.Join(r.out, "config.json")); err != nil || !bytes.Contains(b, []byte("llama")) {
			t.Errorf("no model was saved: %v", err)
		}
	})
}
