package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/trainer/checkpoint"
)

// TestAKilledRankEndsAllAndTheRunGoesOn kills each of two ranks once the run has a checkpoint.
func TestAKilledRankEndsAllAndTheRunGoesOn(t *testing.T) {
	for _, l := range launchers(t) {
		flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--grad-accum", "2", "--keep", "0",
			"--save-every", "2", "--steps", "400", "--no-eval", "--schedule", "constant")
		for rank := range 2 {
			t.Run(fmt.Sprint(l.name, " ", rank), func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "out")
				mark := "TUNE_TEST_MARK=" + out
				cmd := l.command(t, 2, append(flags, "--out", out)...)
				cmd.Env = append(cmd.Env, mark)
				var text bytes.Buffer
				cmd.Stdout, cmd.Stderr = &text, &text
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if !eventually(t, func() bool { return hasCheckpoints(out) }) {
					t.Fatal("no checkpoint")
				}
				pids := processesOf(t, mark, fmt.Sprintf("MPI_COMM_WORLD_RANK=%d", rank), fmt.Sprintf("PMI_RANK=%d", rank))
				if len(pids) != 1 {
					t.Fatalf("rank %d is %d processes", rank, len(pids))
				}
				if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Wait(); err == nil {
					t.Fatalf("a run of which a rank was killed ends well:\n%s", &text)
				}
				if !eventually(t, func() bool { return len(processesOf(t, mark, "")) == 0 }) {
					t.Error("a rank goes on")
				}
				steps, err := checkpoint.Steps(out)
				if err != nil || len(steps) == 0 {
					t.Fatalf("no checkpoint is left: %v", err)
				}
				// One more step than were done, by another number of ranks.
				done := steps[len(steps)-1]
				got := l.steps(t, 1, "--resume", "--out", out, "--steps", fmt.Sprint(done+1))
				if len(got) != 1 {
					t.Errorf("the resumed run has %d steps, want 1", len(got))
				}
			})
		}
	}
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
