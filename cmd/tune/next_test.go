package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
)

// TestAWrongPluginIsNotRecommended for training the model further, which takes the plugins' folder as the run did.
func TestAWrongPluginIsNotRecommended(t *testing.T) {
	c := trainer.Config{Kernels: "shortrope,npu_fused_rmsnorm", Precision: "bf16"}
	for _, wrong := range [][]*core.KernelError{nil, {{Kernel: "shortrope"}}} {
		var b strings.Builder
		a := &app{again: again{plugins: " --plugin-dir p"}}
		a.printNext(&b, c, &trainer.Summary{Out: "out", Wrong: wrong}, false)
		want := "--kernels shortrope,npu_fused_rmsnorm --plugin-dir p --precision bf16 --model out --data FILE\n"
		if wrong != nil {
			want = "--kernels from:out --plugin-dir p --precision bf16 --model out --data FILE\n"
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("wrong %v:\n%s", wrong, b.String())
		}
	}
}

// TestWhatIsTypedNextTakesTheRunsFlagsAgain: those that no checkpoint keeps go on with it, and those of how weights
// are kept train it further. What is as it is anyway is left out, also if a configuration file has it.
func TestWhatIsTypedNextTakesTheRunsFlagsAgain(t *testing.T) {
	args := "--plugin-dir p --plugin-env A=b --plugin-env C --call-timeout 60s --max-time 1h --force " +
		"--shard-optimizer=false --report-to jsonl,trackio --tensorboard --rank-timeout 9s --batch 2 --base-nf4 " +
		"--lora-rank 4 --serve 80"
	c := &Command{Name: "train"}
	f := newTrainFlags(c)
	c.finish(nil)
	if err := c.Flags.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	const plugins = " --plugin-dir p --plugin-env A=b --plugin-env C"
	a := &app{again: newAgain(c, &f.kernels.plugins), checkpoint: filepath.Join("my run", "checkpoint-1")}
	if got, want := a.resumeCommand(), "--resume --out 'my run'"+plugins+" --max-time 1h0m0s --report-to jsonl "+
		"--report-to trackio --tensorboard --rank-timeout 9s --force"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	var b strings.Builder
	f.config.Model, f.config.Kernels = "m", "from:my run"
	a.printNext(&b, f.config, &trainer.Summary{Out: "out"}, false)
	want := " --kernels 'from:my run'" + plugins + " --base-nf4 --model m --adapter out --data FILE\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("%s, want %s", b.String(), want)
	}
}

// TestTheLatestOutputHasCheckpoints if any has: a model that was saved beside its own folder
// leaves its checkpoints there.
func TestTheLatestOutputHasCheckpoints(t *testing.T) {
	for _, tt := range []struct{ folders, want string }{
		{"", "tune-out"},
		{"tune-out tune-out-2", "tune-out-2"},
		{"tune-out/checkpoint-2 tune-out-2", "tune-out"},
		{"tune-out/checkpoint-2 tune-out-2/checkpoint-1 tune-out-3", "tune-out-2"},
	} {
		dir := t.TempDir()
		for _, f := range strings.Fields(tt.folders) {
			if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(f)), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if got := latestOut(filepath.Join(dir, "tune-out")); got != filepath.Join(dir, tt.want) {
			t.Errorf("of %q: %s, want %s", tt.folders, got, tt.want)
		}
	}
}

func TestWordsAreQuotedForTheShellsOfWindows(t *testing.T) {
	for word, want := range map[string]string{
		`C:\models\tune.exe`: `C:\models\tune.exe`,
		`C:\my models`:       `"C:\my models"`,
		`C:\my models\`:      `"C:\my models\\"`,
		`A=say "x\y"`:        `"A=say \"x\y\""`,
		`50%`:                `"50%"`,
		``:                   `""`,
	} {
		if got := quotedForWindows(word); got != want {
			t.Errorf("%s is quoted as %s, want %s", word, got, want)
		}
	}
}
