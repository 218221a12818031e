package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ctest"
)

// TestVerifyCatchesWhatPluginsLeaveBehind runs the command on executables that are right in
// every output.
func TestVerifyCatchesWhatPluginsLeaveBehind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell what a process has")
	}
	for plugin, wants := range map[string][]string{ // the first says which cases find it, "" that it is any
		"bug_keeps_all": {`left behind by calls`, `FAILED rms_norm, 1 case: left behind by calls`,
			`the process opens 0\.0[0-9]+ descriptors with each call`,
			`the process starts 0\.0[0-9]+ threads with each call that do not end`,
			`the process leaves 0\.0[0-9]+ files with each call in the folder for temporary files`,
			`the process maps [0-9]+ bytes of address space with each call`,
			`the process prints [0-9]+ bytes with each call`,
			`FAILED left behind: it leaves [0-9]+ files in the folder for temporary files, \$TMPDIR: scratch-`},
		"bug_spins": {`at rest after calls`, `keeps [0-9]+% of a processor busy while nobody calls it`},
		"bug_late":  {``, `FAILED swiglu`, `(it changed after the call had answered|other bits)`},
		"bug_bystander": {`at rest after calls`,
			`[0-9]+ bytes of the kernel's memory were changed that belong to no output of any call|wrote past the tensor`},
		"bug_all_processors": {`one thread is one`, `with TUNE_THREADS=1 the process keeps [0-9.]+ processors busy`},
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			if plugin == "bug_all_processors" && runtime.NumCPU() < 2 {
				t.Skip("there is one processor")
			}
			code, stdout, stderr := verify(t, ownFolder(t, plugin), "--quick", "--case", wants[0])
			if code != exitFailed {
				t.Errorf("exit code %d, want %d; %s", code, exitFailed, stderr)
			}
			flat := strings.Join(strings.Fields(stdout), " ") // lines are wrapped
			for _, want := range wants[1:] {
				if !regexp.MustCompile(want).MatchString(flat) {
					t.Errorf("nothing matches %q in\n%s", want, stdout)
				}
			}
		})
	}
}

// ownFolder returns the path of a plugin of the tests in a folder where nobody else works.
func ownFolder(t *testing.T, plugin string) string {
	t.Helper()
	found, err := exec.LookPath(plugin)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), plugin)
	if err := os.Symlink(found, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVerifyEndsWhatLivesOnAndRemovesItsFolder, which is the plugin's as well where $TMPDIR is one named from here.
func TestVerifyEndsWhatLivesOnAndRemovesItsFolder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell who started a process")
	}
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	code, stdout, stderr := verify(t, ownFolder(t, "bug_leaves_all"), "--quick", "--case", "left behind by calls")
	if code != exitFailed {
		t.Errorf("exit code %d, want %d; %s", code, exitFailed, stderr)
	}
	lives := regexp.MustCompile(`FAILED left behind: process ([0-9]+) \(sleep\), which it has started, lives on`)
	flat := strings.Join(strings.Fields(stdout), " ")
	found := lives.FindStringSubmatch(flat)
	if found == nil {
		t.Fatalf("nothing matches %q in\n%s", lives, stdout)
	}
	lived := func() bool { // a process that has ended has no program, though nobody may wait for it
		_, err := os.Stat("/proc/" + found[1] + "/exe")
		return err == nil
	}
	for end := time.Now().Add(time.Minute); lived() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if lived() {
		t.Errorf("process %s lives on", found[1])
	}
	for _, want := range []string{"it leaves 1 file in the folder for temporary files, $TMPDIR: compiled.bin",
		"1 file appeared in its working folder, ", ", while it ran: bug_leaves_all.log"} {
		if !strings.Contains(flat, want) {
			t.Errorf("nothing says %q: %s\n%s", want, stdout, stderr)
		}
	}
	for _, want := range []string{`the process prints [0-9]+ bytes with each call`,
		`the process starts 0\.0[0-9]+ processes with each call`} {
		if !regexp.MustCompile(want).MatchString(flat) {
			t.Errorf("nothing matches %q in\n%s", want, stdout)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
	if still, err := transport.Survivors("TUNE_TEST_MARK", "nobody"); err != nil || len(still) > 0 {
		t.Errorf("a variable that nobody has finds %v, %v", still, err)
	}
}

// TestVerifyNamesAMissingFolder that $TMPDIR is to be.
func TestVerifyNamesAMissingFolder(t *testing.T) {
	path := ownFolder(t, "bug_leaves_all")
	t.Setenv("TMPDIR", "none")
	code, _, stderr := verify(t, path, "--quick")
	if code != exitFailed || !strings.Contains(stderr, "have the environment variable TMPDIR name a folder") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestVerifyFindsAProcessThatDoesNotEnd: what it computes is right.
func TestVerifyFindsAProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c_swiglu")
	ctest.Compile(t, path, "cmd/tune/testdata/stays.c")
	code, stdout, stderr := verify(t, path, "--quick", "--case", "one token")
	flat := strings.Join(strings.Fields(stdout), " ")
	if want := "FAILED left behind: its process does not end when the host closes the lifeline"; code != exitFailed ||
		!strings.Contains(flat, want) || !strings.Contains(flat, " 0 failed") {
		t.Errorf("exit code %d, want %d and %q; %s%s", code, exitFailed, want, stdout, stderr)
	}
}
