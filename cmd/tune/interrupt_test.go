//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startLong starts a run that takes very long, unless flags say otherwise, and waits for
// its third step.
func startLong(t *testing.T, dir string, flags ...string) (cmd *exec.Cmd, stderr func() string) {
	t.Helper()
	cmd, out, stderr := startUnread(t, dir, flags...)
	go io.Copy(io.Discard, out) // so that the run does not block
	return cmd, stderr
}

// startUnread is startLong for a test that deals with the rest of standard output.
func startUnread(t *testing.T, dir string, flags ...string) (cmd *exec.Cmd, out io.ReadCloser, stderr func() string) {
	t.Helper()
	if err := writeModel(filepath.Join(dir, "m"), "qwen3_moe"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(sampleText()), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("tune", append([]string{"--kernels", "all", "--plugin-dir", pluginDir(t), "--model", "m",
		"--data", "text.txt",
		"--steps", "1000000", "--seq", "16", "--log", "json", "--out", "saved"}, flags...)...)
	cmd.Dir = dir
	cmd.Env = environment(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	cmd.Stderr = log
	stderr = func() string {
		b, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // in case the test fails before it ends
	lines := bufio.NewScanner(out)
	for range 3 {
		if !lines.Scan() {
			t.Fatalf("the run ended before its third step: %v\n%s", cmd.Wait(), stderr())
		}
	}
	return cmd, out, stderr
}

func send(t *testing.T, cmd *exec.Cmd, s os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// needs skips a test of what a signal does that nothing started from here would get.
func needs(t *testing.T, s os.Signal) {
	t.Helper()
	if signal.Ignored(s) {
		t.Skip("these tests were started with the signal ignored, as by nohup, and what they start ignores it too")
	}
}

func TestAnInterruptSavesAndSucceeds(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			needs(t, s)
			dir := t.TempDir()
			cmd, stderr := startLong(t, dir)
			plugins := children(t, cmd.Process.Pid)
			send(t, cmd, s)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, stderr())
			}
			for _, want := range []string{"tune: interrupted: finishing the step", "of 1000000 steps", "saved          saved"} {
				if !strings.Contains(stderr(), want) {
					t.Errorf("standard error lacks %q:\n%s", want, stderr())
				}
			}
			if got := entries(t, dir); got != "saved" {
				t.Errorf("the run left %q, want saved", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "saved", "model.safetensors")); err != nil {
				t.Error(err)
			}
			gone(t, plugins)
		})
	}
}

func TestASecondInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, stderr := startLong(t, dir)
	plugins := children(t, cmd.Process.Pid)
	// Whether the first one is still being dealt with when the second one comes is a
	// race, so the process is stopped meanwhile.
	send(t, cmd, syscall.SIGSTOP)
	send(t, cmd, syscall.SIGINT)
	send(t, cmd, syscall.SIGTERM)
	send(t, cmd, syscall.SIGCONT)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitInterrupted {
		t.Fatalf("the run ended with %v, want exit code %d\n%s", err, exitInterrupted, stderr())
	}
	if !strings.Contains(stderr(), "nothing was saved") {
		t.Errorf("standard error does not say that nothing was saved:\n%s", stderr())
	}
	if got := entries(t, dir); got != "" {
		t.Errorf("the run left %q", got)
	}
	gone(t, plugins)
}

// TestClosingTheTerminalSaves sends what a terminal that goes away sends.
func TestClosingTheTerminalSaves(t *testing.T) {
	needs(t, syscall.SIGHUP)
	t.Parallel()
	dir := t.TempDir()
	cmd, out, stderr := startUnread(t, dir)
	send(t, cmd, syscall.SIGSTOP)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	send(t, cmd, syscall.SIGHUP)
	send(t, cmd, syscall.SIGCONT)
	for range 5 { // the shell's, and more
		time.Sleep(time.Millisecond)
		send(t, cmd, syscall.SIGHUP)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr())
	}
	if got := entries(t, dir); got != "saved" {
		t.Errorf("the run left %q, want saved", got)
	}
}

func TestAClosedOutputEndsNoRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out, stderr := startUnread(t, dir)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // some more steps, which nobody reads
	send(t, cmd, syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr())
	}
	if got := entries(t, dir); got != "saved" {
		t.Errorf("the run left %q, want saved", got)
	}
}

func TestADeadPluginIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, stderr := startLong(t, dir)
	plugins := children(t, cmd.Process.Pid)
	if plugins == nil {
		t.Skip("without a list of processes there is nothing to kill")
	}
	if err := syscall.Kill(plugins[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !eventually(t, func() bool { return strings.Contains(stderr(), "it is started again") }) {
		t.Fatalf("nothing is said about the death of a plugin:\n%s", stderr())
	}
	send(t, cmd, syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr())
	}
	if want := " 1 death, "; !strings.Contains(stderr(), want) {
		t.Errorf("the summary lacks %q:\n%s", want, stderr())
	}
}

// TestNoPluginOutlivesItsRun ends runs in order, at their last step, and by SIGKILL at
// random moments, most of which are within a call.
func TestNoPluginOutlivesItsRun(t *testing.T) {
	t.Parallel()
	t.Run("in order", func(t *testing.T) {
		cmd, stderr := startLong(t, t.TempDir(), "--steps", "300")
		plugins := children(t, cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, stderr())
		}
		gone(t, plugins)
	})
	dir := t.TempDir()
	for range 3 {
		t.Run("killed", func(t *testing.T) {
			cmd, _ := startLong(t, dir)
			plugins := children(t, cmd.Process.Pid)
			time.Sleep(rand.N(20 * time.Millisecond))
			send(t, cmd, os.Kill)
			if err := cmd.Wait(); err == nil {
				t.Error("the run was not killed")
			}
			gone(t, plugins)
		})
	}
}

// eventually waits for something, however long a busy machine takes for it. It returns
// false if the time of all tests is about to end first.
func eventually(t *testing.T, done func() bool) bool {
	end, ends := t.Deadline()
	for ; !done(); time.Sleep(5 * time.Millisecond) {
		if ends && time.Until(end) < 10*time.Second {
			return false
		}
	}
	return true
}

// gone fails if one of the processes goes on running.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }) {
			t.Errorf("plugin process %d outlives the run", pid)
		}
	}
}

// children returns the processes that pid has started, where the system tells.
func children(t *testing.T, pid int) []int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Logf("cannot list processes, so plugins are not looked for: %v", err)
		return nil
	}
	var pids []int
	for _, f := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Error("the run has no plugin processes")
	}
	return pids
}
