//go:build unix

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/trainer/journal"
)

// TestTwoRunsAtOnceLoseNothing starts two runs that choose their folder themselves, and two
// that are told the same one.
func TestTwoRunsAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	dir := modelAndText(t, "llama")
	args := []string{"--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16", "--log", "json", "--steps"}
	first := tuneIn(t, dir, append(args, "1000000")...)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Process.Kill() })
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the first run has no step")
	}

	second := tuneIn(t, dir, append(args, "2")...)
	if err := second.Run(); err != nil {
		t.Errorf("the second run: %v", err)
	}
	wantModel(t, filepath.Join(dir, "tune-out-2"))

	for _, more := range [][]string{{"--out", "tune-out"}, {"--out", "tune-out", "--save-every", "1"},
		{"--out", "./x/../tune-out"}} {
		third := tuneIn(t, dir, append(append(args, "2"), more...)...)
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o777); err != nil {
			t.Fatal(err)
		}
		err := third.Run()
		text := stderrOf(third)
		if err == nil || !strings.Contains(text, "another run") || !strings.Contains(text, "process "+pid(first)) ||
			!strings.Contains(text, "choose another") {
			t.Errorf("%v: %v; standard error does not name the other run and what to do:\n%s", more, err, text)
		}
	}

	send(t, first, syscall.SIGINT)
	for lines := bufio.NewScanner(out); lines.Scan(); {
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the first run: %v", err)
	}
	wantModel(t, filepath.Join(dir, "tune-out"))
	if got := entries(t, dir); got != "tune-out tune-out-2 x" {
		t.Errorf("the runs left %q", got)
	}
}

// TestAFolderThatAppearsMeanwhileCostsNoModel makes the output folder, with a file, while a
// run goes on that wants it.
func TestAFolderThatAppearsMeanwhileCostsNoModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, stderr := startLong(t, dir, "--kernels", "none")
	if err := os.Mkdir(filepath.Join(dir, "saved"), 0o777); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "saved", "config.json")
	if err := os.WriteFile(mine, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	send(t, cmd, syscall.SIGINT)
	if err := cmd.Wait(); err == nil {
		t.Error("the run succeeded, though the model is not where it was to be")
	}
	wantModel(t, filepath.Join(dir, "saved-2"))
	if !strings.Contains(stderr(), "saved-2") {
		t.Errorf("standard error does not say where the model is:\n%s", stderr())
	}
	if b, err := os.ReadFile(mine); err != nil || string(b) != "mine" {
		t.Errorf("the file that was there is %q, %v", b, err)
	}
}

// TestAParentThatIsGoneCostsNoModel puts a file where the folder of the output folder was.
func TestAParentThatIsGoneCostsNoModel(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--save-every", "1000000"}} {
		dir := t.TempDir()
		cmd, stderr := startLong(t, dir, append(flags, "--kernels", "none", "--out", "deep/saved")...)
		if err := os.Rename(filepath.Join(dir, "deep"), filepath.Join(dir, "gone")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "deep"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		send(t, cmd, syscall.SIGINT)
		if err := cmd.Wait(); err == nil {
			t.Error("the run succeeded, though the model is not where it was to be")
		}
		wantModel(t, filepath.Join(dir, "saved-2"))
		if want := "the model is in "; !strings.Contains(stderr(), want) || !strings.Contains(stderr(), "saved-2") {
			t.Errorf("standard error does not say where the model is:\n%s", stderr())
		}
	}
}

// TestAFolderThatIsRemovedIsMadeAgain removes what a run has written so far.
func TestAFolderThatIsRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--save-every", "1"}} {
		dir := t.TempDir()
		cmd, stderr := startLong(t, dir, append(flags, "--kernels", "none")...)
		written, err := filepath.Glob(filepath.Join(dir, "saved*"))
		if err != nil || written == nil {
			t.Fatalf("the run has written %q, %v", written, err)
		}
		for _, w := range written {
			os.RemoveAll(w) // which the run may be writing to
		}
		send(t, cmd, syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", flags, err, stderr())
		}
		wantModel(t, filepath.Join(dir, "saved"))
		if r, err := journal.Read(filepath.Join(dir, "saved")); err != nil || r.End == nil || len(r.Steps) != r.End.Step {
			t.Errorf("%v: the journal is not that of the run: %+v, %v", flags, r, err)
		}
	}
}
