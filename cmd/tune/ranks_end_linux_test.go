package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAFailureOfOneRankEndsAll: before it has joined the others, while they wait for it, and later. It is told with
// the name of that rank, and nothing is left behind.
func TestAFailureOfOneRankEndsAll(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct{ name, second, want string }{
		{"flag", "--lr nothing", `--lr is "nothing"; it must be a number`},
		{"configuration", "--config " + missing, "--config: " + missing + " does not exist"},
		{"checkpoint", "--resume=" + missing, "trainer: resume: " + missing + " does not exist"},
		{"data", "--data " + missing, "data: " + missing + " does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachLauncher(t, func(t *testing.T, l launcher) {
				dir := t.TempDir()
				flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--steps", "2", "--out",
					filepath.Join(dir, "out"))
				text, err := l.pair(t, flags, slices.Concat(flags, strings.Fields(tt.second)))
				if err == nil || !strings.Contains(text, "tune: rank 1 (") || !strings.Contains(text, "): "+tt.want) {
					t.Errorf("%v, want %q of rank 1:\n%s", err, tt.want, text)
				}
				left, err := os.ReadDir(dir)
				if err != nil || len(left) > 0 {
					t.Errorf("%v is left, %v:\n%s", left, err, text)
				}
			})
		})
	}
}

// TestARankWithoutOthersSaysSo: by what its environment has it is the second of two, but it was started alone.
func TestARankWithoutOthersSaysSo(t *testing.T) {
	t.Parallel()
	eachLauncher(t, func(t *testing.T, l launcher) {
		cmd := l.command(t, 1, append(trainable(t, "llama"), "--out", filepath.Join(t.TempDir(), "out"))...)
		cmd.Env = append(cmd.Env, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2")
		if l.name == "mpirun.mpich" {
			cmd.Env = append(cmd.Env, "TUNE_MPI=libmpich.so.12")
		}
		out, err := cmd.CombinedOutput()
		want := "distributed: Open MPI has started 2 processes, this one as rank 1, but for "
		if err == nil || !strings.Contains(string(out), "tune: rank 1 (") || !strings.Contains(string(out), want) {
			t.Errorf("%v, want %q of rank 1:\n%s", err, want, out)
		}
	})
}

// TestARankThatIsAnotherSaysSo: the environment of each of two says that it is the second, so that none would print.
func TestARankThatIsAnotherSaysSo(t *testing.T) {
	t.Parallel()
	l, dir := launchers(t)[0], t.TempDir()
	if l.name != "mpirun.openmpi" {
		t.Skip("MPICH goes by its variable itself; install Debian's openmpi-bin")
	}
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--steps", "1", "--out",
		filepath.Join(dir, "out"))
	text, err := l.by(t, `export OMPI_COMM_WORLD_RANK=1; exec "$@"`, flags...)
	left, failed := os.ReadDir(dir)
	if err == nil || failed != nil || len(left) > 0 {
		t.Errorf("%v; %v is left, %v:\n%s", err, left, failed, text)
	}
	want := ", this one as rank 1, but for "
	if !strings.Contains(text, want) || !strings.Contains(text, ") it is rank 0 of 2: ") {
		t.Errorf("want %q:\n%s", want, text)
	}
}

// TestAConfigurationKeepsRanksApart: what it says of them counts as the flag does.
func TestAConfigurationKeepsRanksApart(t *testing.T) {
	t.Parallel()
	l, dir := launchers(t)[0], t.TempDir()
	config := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(config, []byte("distributed: \"off\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	flags := append(trainable(t, "llama"), "--config", config, "--kernels", "none", "--batch", "2", "--steps", "1",
		"--out")
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	text, err := l.pair(t, append(flags[:len(flags):len(flags)], first), append(flags[:len(flags):len(flags)], second))
	if err != nil || strings.Contains(text, "2 ranks on ") {
		t.Fatalf("%v:\n%s", err, text)
	}
	wantModel(t, first)
	wantModel(t, second)
}
