//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// times are the parts of a training log that are not the same in two equal runs.
var times = regexp.MustCompile(`"tokens_per_s":[^,}]*|"out":"[^"]*"`)

// killAfter starts a run and kills it a moment after it has written so many steps. It
// reports whether the run was over before.
func killAfter(t *testing.T, cmd *exec.Cmd, steps int, moment time.Duration) (over bool) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range steps {
		if !lines.Scan() {
			break
		}
	}
	time.Sleep(moment)
	if err := cmd.Process.Kill(); err != nil {
		t.Log(err)
	}
	io.Copy(io.Discard, out)
	return cmd.Wait() == nil
}

// TestARunThatIsKilledGoesOnToTheSameEnd kills a run at ten random moments, most of them
// within the writing of a checkpoint, since there is one after each step.
func TestARunThatIsKilledGoesOnToTheSameEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	t.Run("all weights", func(t *testing.T) {
		t.Parallel()
		killed(t, 80, 10, wholeFiles)
	})
	t.Run("LoRA", func(t *testing.T) {
		t.Parallel()
		killed(t, 40, 5, adapterFiles, "--lora-rank", "4", "--lora-dropout", "0.3")
	})
	t.Run("rows of several lengths", func(t *testing.T) {
		t.Parallel()
		killed(t, 40, 5, wholeFiles, "--no-packing", "--group-by-length")
	})
}

// What a run saves, its weights first.
var (
	wholeFiles   = []string{checkpoint.SingleFile, "config.json"}
	adapterFiles = []string{lora.WeightsFile, lora.ConfigFile}
)

// killed compares these files, and others, of a run of so many steps that is killed so often
// with those of one that is not. It returns the first of them.
func killed(t *testing.T, steps, kills int, files []string, flags ...string) (weights []byte) {
	dir := modelAndText(t, "qwen3_moe")
	const most = 6 // steps between two kills
	args := []string{"--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16",
		"--steps", fmt.Sprint(steps), "--lr", "1e-2", "--grad-accum", "2",
		"--eval-every", "10", "--save-every", "1", "--log", "json"}
	args = append(args, flags...)
	if err := tuneIn(t, dir, append(args, "--out", "whole")...).Run(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	args = slices.Clip(args)
	next, out := append(args, "--out", "killed"), filepath.Join(dir, "killed")
	for resumed := 0; resumed < kills; {
		over := killAfter(t, tuneIn(t, dir, next...), 1+rng.IntN(most), time.Duration(rng.IntN(int(10*time.Millisecond))))
		if !over && loadable(t, dir, out) > 0 {
			next = []string{"--resume", "--out", "killed", "--log", "json"}
			resumed++
			continue
		}
		// The run was faster than this process, or killed before its first checkpoint.
		next = append(args, "--out", "killed")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := tuneIn(t, dir, next...).Run(); err != nil {
		t.Fatal(err)
	}
	// With what the optimizer has kept the next run would go on to the same bits, too.
	state := filepath.Join(checkpoint.StepDir("", steps), "optimizer.safetensors")
	for _, name := range append(slices.Clip(files), state, "training_log.jsonl", "tokenizer.json") {
		got, err1 := os.ReadFile(filepath.Join(out, name))
		want, err2 := os.ReadFile(filepath.Join(dir, "whole", name))
		if err1 != nil || err2 != nil || !bytes.Equal(times.ReplaceAll(got, nil), times.ReplaceAll(want, nil)) {
			t.Errorf("%s differs from that of a run that was not killed (%v, %v)", name, err1, err2)
		}
	}
	if got, want := lossesOf(t, out), lossesOf(t, filepath.Join(dir, "whole")); !slices.Equal(got, want) {
		t.Errorf("the journal has the losses\n%v, that of a run that was not killed\n%v", got, want)
	}
	left, err := filepath.Glob(filepath.Join(out, "*partial*"))
	if err != nil || left != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	weights, _ = os.ReadFile(filepath.Join(out, files[0]))
	return weights
}

// TestFiftyKillsLoseNothingThatWasFinished kills runs at random moments of their lives: while
// they load, train, save a checkpoint, save the model, or give up their folder. Each is
// followed by the same command, which goes on from where the folder is.
func TestFiftyKillsLoseNothingThatWasFinished(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	dir := modelAndText(t, "llama")
	const kills = 50
	args := []string{"--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16", "--steps", "30",
		"--save-every", "2", "--log", "json", "--out"}
	start := time.Now()
	if err := tuneIn(t, dir, append(args, "whole")...).Run(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(start) // of a machine as busy as it is
	wantModel(t, filepath.Join(dir, "whole"))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng, out, finished, newest := rand.New(rand.NewPCG(seed, 0)), "out", 0, 0
	for killed := 0; killed < kills; {
		next := append(slices.Clip(args), out)
		if newest > 0 {
			next = []string{"--resume", "--out", out, "--log", "json"}
		}
		cmd := tuneIn(t, dir, next...)
		killAfter(t, cmd, 0, time.Duration(rng.Int64N(int64(whole))))
		switch code := cmd.ProcessState.ExitCode(); code {
		case 0: // it was faster
		case -1:
			killed++
		default:
			t.Fatalf("%v ended with exit code %d:\n%s", next, code, stderrOf(cmd))
		}
		path := filepath.Join(dir, out)
		steps, err := checkpoint.Steps(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, step := range steps {
			if err := checkpoint.Verify(checkpoint.StepDir(path, step)); err != nil {
				t.Error(err)
			}
		}
		last := 0
		if len(steps) > 0 {
			last = steps[len(steps)-1]
		}
		if last < newest {
			t.Errorf("the newest checkpoint is %d, after one of step %d", last, newest)
		}
		newest = last
		if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil { // which makes it a model
			sameFiles(t, path, filepath.Join(dir, "whole"))
			finished++
			out, newest = fmt.Sprint("out-", finished), 0
		}
	}
	if newest > 0 {
		if err := tuneIn(t, dir, "--resume", "--out", out).Run(); err != nil {
			t.Error(err)
		}
		sameFiles(t, filepath.Join(dir, out), filepath.Join(dir, "whole"))
	}
	t.Logf("%d kills; %d runs came to their end between them", kills, finished)
}

// sameFiles fails unless two models have the same weights and logs.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	if err := checkpoint.Verify(got); err != nil {
		t.Error(err)
	}
	for _, name := range []string{checkpoint.SingleFile, "config.json", "training_log.jsonl", "tokenizer.json"} {
		a, err1 := os.ReadFile(filepath.Join(got, name))
		b, err2 := os.ReadFile(filepath.Join(want, name))
		if err1 != nil || err2 != nil || !bytes.Equal(times.ReplaceAll(a, nil), times.ReplaceAll(b, nil)) {
			t.Errorf("%s differs from that of a run that was not killed (%v, %v)", filepath.Join(got, name), err1, err2)
		}
	}
}

// lossesOf reads the losses of all steps and evaluations from the journal of a run.
func lossesOf(t *testing.T, out string) []float64 {
	t.Helper()
	r, err := journal.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, s := range r.Steps {
		all = append(all, float64(s.Step), s.Loss)
	}
	for _, e := range r.Evals {
		all = append(all, float64(e.Step), e.Loss)
	}
	return all
}

// loadable loads every checkpoint that has its name, and returns the newest step. One of an
// adapter is put on the model m in dir.
func loadable(t *testing.T, dir, out string) (newest int) {
	t.Helper()
	steps, err := checkpoint.Steps(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		model, options := checkpoint.StepDir(out, step), models.LoadOptions{}
		if _, err := os.Stat(filepath.Join(model, lora.ConfigFile)); err == nil {
			model, options.LoRA.Adapter = filepath.Join(dir, "m"), model
		}
		m, err := models.LoadWith(model, autograd.Heap{}, options)
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		newest = step
	}
	return newest
}

// TestAnInterruptedRunSaysHowToGoOn interrupts a run that has checkpoints, once and twice.
func TestAnInterruptedRunSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	dir := modelAndText(t, "llama")
	const steps = "1000000"
	first := []string{"--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16", "--steps", steps,
		"--save-every", steps, "--out", "saved", "--log", "json"}
	again := []string{"--resume", "--out", "saved", "--log", "json"}
	for _, tt := range []struct {
		args    []string
		signals []os.Signal
		code    int
		want    string
	}{
		{first, []os.Signal{syscall.SIGINT}, exitOK, "Go on with the run:\n  tune --resume --out saved\n"},
		{again, []os.Signal{syscall.SIGSTOP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCONT}, exitInterrupted,
			"tune: interrupted; go on with: tune --resume --out saved\n"},
		{again, []os.Signal{syscall.SIGINT}, exitOK, "Go on with the run:\n  tune --resume --out saved\n"},
	} {
		cmd := tuneIn(t, dir, tt.args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines, n := bufio.NewScanner(out), 0; n < 3 && lines.Scan(); n++ {
		}
		for _, s := range tt.signals {
			send(t, cmd, s)
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
		stderr := cmd.Stderr.(*bytes.Buffer).String()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("exit code %d, want %d; standard error should have %q:\n%s", code, tt.code, tt.want, stderr)
		}
	}
	if loadable(t, dir, filepath.Join(dir, "saved")) < 6 {
		t.Error("the newest checkpoint is not that of the last interrupt")
	}
	if _, err := os.Stat(filepath.Join(dir, "saved", "config.json")); err != nil {
		t.Error(err)
	}
}
