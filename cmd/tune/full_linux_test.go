package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
)

// smallDisk mounts a file system of 1 MiB, which takes privileges that most users do not
// have. It returns its folder, and what fills it.
func smallDisk(t *testing.T, dir string) (disk string, full func()) {
	t.Helper()
	disk = filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk, func() {
		if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 2<<20), 0o666); err == nil {
			t.Error("the disk has more room than it should")
		}
	}
}

func TestADiskThatFillsAtTheEndCostsNoModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, full := smallDisk(t, dir)
	cmd, stderr := startLong(t, dir, "--kernels", "none", "--out", "disk/saved")
	full()
	send(t, cmd, unix.SIGINT)
	if err := cmd.Wait(); err == nil {
		t.Error("the run succeeded, though the model is not where it was to be")
	}
	wantModel(t, filepath.Join(dir, "saved-2"))
	for _, want := range []string{"no space left on device", "the model is in " + filepath.Join(dir, "saved-2")} {
		if !strings.Contains(stderr(), want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "saved-2", "run.jsonl")); err != nil {
		t.Errorf("the journal is not with the model: %v", err)
	}
}

// TestADiskThatFillsInTheMiddleCostsNoCheckpoint makes room again after a while. The journal has all, too.
func TestADiskThatFillsInTheMiddleCostsNoCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, full := smallDisk(t, dir)
	cmd, stderr := startLong(t, dir, "--kernels", "none", "--out", "disk/saved", "--save-every", "1")
	if !eventually(t, func() bool {
		full() // again, as a checkpoint that was removed meanwhile leaves room for another
		return strings.Contains(stderr(), "no checkpoint was saved, the run goes on")
	}) {
		t.Fatalf("nothing is said about the disk:\n%s", stderr())
	}
	whole, err := checkpoint.Steps(filepath.Join(disk, "saved"))
	if err != nil || len(whole) == 0 {
		t.Fatalf("checkpoints %v, %v", whole, err)
	}
	before := whole[len(whole)-1]
	if err := checkpoint.Verify(checkpoint.StepDir(filepath.Join(disk, "saved"), before)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	send(t, cmd, unix.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr())
	}
	wantModel(t, filepath.Join(disk, "saved"))
	if newest := loadable(t, dir, filepath.Join(disk, "saved")); newest <= before {
		t.Errorf("the newest checkpoint is %d, no later than when there was no room, %d", newest, before)
	}
	run, err := journal.Read(filepath.Join(disk, "saved"))
	if err != nil {
		t.Fatal(err)
	}
	if run.End == nil || len(run.Steps) != run.End.Step {
		t.Errorf("the journal has %d steps and the end %+v: what there was no room for is missing", len(run.Steps), run.End)
	}
}

// TestAFullDiskOfAReportFailsNoRun: what other programs are told of a run is less than the run, in its middle and
// where only the last row is missing. The journal has all.
func TestAFullDiskOfAReportFailsNoRun(t *testing.T) {
	t.Parallel()
	dir := modelAndText(t, "llama")
	_, full := smallDisk(t, dir)
	full()
	for steps, want := range map[string]string{
		"1": "tune: warning: trackio: write disk/1.csv: no space left on device\n",
		"3": "tune: warning: trackio: write disk/3.csv: no space left on device; nothing more of the run is written there\n",
	} {
		cmd := tuneIn(t, dir, "train", "--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16",
			"--eval-size", "0", "--steps", steps, "--out", steps, "--report-to", "trackio=disk")
		err := cmd.Run()
		if said := stderrOf(cmd); err != nil || strings.Count(said, "no space") != 1 || !strings.Contains(said, want) {
			t.Errorf("%v\n%s\nwant success and %q", err, said, want)
		}
		run, err := journal.Read(filepath.Join(dir, steps))
		if err != nil || run.End == nil || len(run.Steps) != run.End.Step || len(run.Steps) == 0 {
			t.Errorf("the journal is %+v, %v", run, err)
		}
	}
}

// TestTheOutputFolderMayBeADisk: where a file system is mounted no folder can be renamed to.
func TestTheOutputFolderMayBeADisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, _ := smallDisk(t, dir)
	cmd, stderr := startLong(t, dir, "--kernels", "none", "--out", "disk", "--steps", "4")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr())
	}
	wantModel(t, disk)
}

// TestAModelThatHasNowhereToGoWaits limits the size of the files that the run can write, or how many it can open, so
// that no disk helps, and lifts that when it has said so.
func TestAModelThatHasNowhereToGoWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		resource int
		limit    uint64
		want     string
	}{
		"no large file": {unix.RLIMIT_FSIZE, 20 << 10, // what the run says has less
			`raise the limit of a file's size \(prlimit --pid \d+ --fsize shows it, --fsize=MORE: raises it\): saving is`},
		"no file": {unix.RLIMIT_NOFILE, 3,
			`raise the limit of open files \(prlimit --pid \d+ --nofile shows it, --nofile=MORE: raises it\): saving is tried`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd, stderr := startLong(t, dir, "--kernels", "none")
			var old unix.Rlimit
			limit := func(to *unix.Rlimit) {
				if err := unix.Prlimit(cmd.Process.Pid, tt.resource, to, &old); err != nil {
					t.Skip(err)
				}
			}
			limit(nil)
			limit(&unix.Rlimit{Cur: tt.limit, Max: old.Max})
			lifted := old
			send(t, cmd, unix.SIGINT)
			if !eventually(t, func() bool { return regexp.MustCompile(tt.want).MatchString(stderr()) }) {
				t.Fatalf("the run does not say that it waits:\n%s", stderr())
			}
			limit(&lifted)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, stderr())
			}
			wantModel(t, filepath.Join(dir, "saved"))
			if got := entries(t, dir); got != "saved" {
				t.Errorf("the run left %q, want saved", got)
			}
		})
	}
}

// TestResultsThatNobodyGets: a command whose results cannot be written has failed, and what is saved has not. Where
// nobody reads them, nothing is said.
func TestResultsThatNobodyGets(t *testing.T) {
	t.Parallel()
	dir := modelAndText(t, "llama")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	read, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	const cause = "write /dev/stdout: no space left on device\n"
	type end struct {
		code   int
		stderr string
	}
	failed := end{exitFailed, "tune: " + cause}
	for args, written := range map[string]end{
		"version":                                failed,
		"help":                                   failed,
		"data preview --model m --data text.txt": failed,
		"plan --model m --kernels none --seq 16": failed,
		"eval --kernels none --model m --data text.txt --seq 16": failed,
		"train --kernels none --model m --data text.txt --seq 16 --steps 1": {exitOK,
			"tune: warning: what was printed is not complete: " + cause},
	} {
		for out, want := range map[*os.File]end{full: written, unread: {exitOK, ""}} {
			cmd := tuneIn(t, dir, strings.Fields(args)...)
			cmd.Stdout = out
			_ = cmd.Run()
			if got := (end{cmd.ProcessState.ExitCode(), stderrOf(cmd)}); got != want {
				t.Errorf("tune %s > %s ends with %+v, want %+v", args, out.Name(), got, want)
			}
		}
	}
}
