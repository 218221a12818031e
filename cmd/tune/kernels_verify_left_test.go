package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

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
	for plugin, wants := range map[string][]string{
		"bug_descriptors": {`FAILED rms_norm, 1 case: left behind by calls`,
			`the process opens 0\.0[0-9]+ descriptors with each call`},
		"bug_threads_left": {`left behind by calls`,
			`the process starts 0\.0[0-9]+ threads with each call that do not end`},
		"bug_children": {`left behind by calls`, `the process starts 0\.0[0-9]+ processes with each call`},
		"bug_daemon":   {`FAILED left behind: process [0-9]+ \(sleep\), which it has started, lives on`},
		"bug_temporary": {`the process leaves 0\.0[0-9]+ files with each call in the folder for temporary files`,
			`FAILED left behind: it leaves [0-9]+ files in the folder for temporary files, \$TMPDIR: scratch-`},
		"bug_one_temporary": {
			`FAILED left behind: it leaves 1 file in the folder for temporary files, \$TMPDIR: compiled.bin`},
		"bug_working_folder": {`FAILED left behind: 1 file appeared in its working folder, .*: bug_working_folder.log`},
		"bug_maps":           {`the process maps [0-9]+ bytes of address space with each call`},
		"bug_prints":         {`the process prints [0-9]+ bytes with each call`},
		"bug_prints_raw":     {`the process prints [0-9]+ bytes with each call`},
		"bug_spins":          {`at rest after calls`, `keeps [0-9]+% of a processor busy while nobody calls it`},
		"bug_late":           {`FAILED swiglu`, `(it changed after the call had answered|other bits)`},
		"bug_bystander": {`at rest after calls`,
			`[0-9]+ bytes of the kernel's memory were changed that belong to no output of any call|wrote past the tensor`},
		"bug_all_processors": {`one thread is one`, `with TUNE_THREADS=1 the process keeps [0-9.]+ processors busy`},
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			if plugin == "bug_all_processors" && runtime.NumCPU() < 2 {
				t.Skip("there is one processor")
			}
			code, stdout, stderr := verify(t, ownFolder(t, plugin), "--quick")
			if code != exitFailed {
				t.Errorf("exit code %d, want %d; %s", code, exitFailed, stderr)
			}
			flat := strings.Join(strings.Fields(stdout), " ") // lines are wrapped
			for _, want := range wants {
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

// TestNothingLivesOnAfterVerifying: what a plugin has left behind is ended.
func TestNothingLivesOnAfterVerifying(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell who started a process")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	verify(t, ownFolder(t, "bug_daemon"), "--quick")
	left, err := filepath.Glob(filepath.Join(temp, "tune-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
	if still, err := transport.Survivors("TUNE_TEST_MARK", "nobody"); err != nil || len(still) > 0 {
		t.Errorf("a variable that nobody has finds %v, %v", still, err)
	}
}

// TestVerifyMakesAFolderWhateverTMPDIRIs: one named from here is the plugin's as well, which works elsewhere, and one
// that is missing is named.
func TestVerifyMakesAFolderWhateverTMPDIRIs(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	const want = "it leaves 1 file in the folder for temporary files"
	_, stdout, stderr := verify(t, ownFolder(t, "bug_one_temporary"), "--quick")
	if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
		t.Errorf("nothing says %q: %s\n%s", want, stdout, stderr)
	}
	t.Setenv("TMPDIR", "none")
	code, _, stderr := verify(t, ownFolder(t, "bug_one_temporary"), "--quick")
	if code != exitFailed || !strings.Contains(stderr, "have the environment variable TMPDIR name a folder") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestVerifyFindsAProcessThatDoesNotEnd: what it computes is right.
func TestVerifyFindsAProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c_swiglu")
	ctest.Compile(t, path, "cmd/tune/testdata/stays.c")
	code, stdout, stderr := verify(t, path, "--quick")
	flat := strings.Join(strings.Fields(stdout), " ")
	if want := "FAILED left behind: its process does not end when the host closes the lifeline"; code != exitFailed ||
		!strings.Contains(flat, want) || !strings.Contains(flat, " 0 failed") {
		t.Errorf("exit code %d, want %d and %q; %s%s", code, exitFailed, want, stdout, stderr)
	}
}
