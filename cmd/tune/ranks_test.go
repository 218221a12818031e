package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
)

// launcher starts ranks.
type launcher struct {
	name string
	args []string // before the number of ranks
}

// launchers are the MPIs of this machine; a test without any is skipped.
func launchers(t *testing.T) []launcher {
	t.Helper()
	var found []launcher
	for _, l := range []launcher{
		{"mpirun.openmpi", []string{"--oversubscribe", "--bind-to", "none", "-n"}},
		{"mpirun.mpich", []string{"-n"}},
	} {
		if _, err := exec.LookPath(l.name); err == nil {
			found = append(found, l)
		}
	}
	if len(found) == 0 {
		t.Skip("there is neither mpirun.openmpi nor mpirun.mpich; install Debian's openmpi-bin and mpich")
	}
	return found
}

// command returns tune as n ranks, or as it is for one.
func (l launcher) command(t *testing.T, n int, args ...string) *exec.Cmd {
	t.Helper()
	tune, err := exec.LookPath("tune")
	if err != nil {
		t.Fatal(err)
	}
	line := append([]string{tune}, args...)
	if n > 1 {
		line = slices.Concat([]string{l.name}, l.args, []string{fmt.Sprint(n)}, line)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(environment(t), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_orte_tmpdir_base="+sessionDir(t), "XDG_CONFIG_HOME="+t.TempDir())
	return cmd
}

// pair runs tune as two ranks that have flags of their own.
func (l launcher) pair(t *testing.T, first, second []string) (string, error) {
	t.Helper()
	cmd := l.command(t, 2, first...)
	cmd.Args[len(l.args)+1] = "1"
	cmd.Args = slices.Concat(cmd.Args, []string{":", "-n", "1"}, l.command(t, 1, second...).Args)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// by runs tune as two ranks, whose command, and $RANK, a line of the shell has.
func (l launcher) by(t *testing.T, line string, args ...string) (string, error) {
	t.Helper()
	tune := l.command(t, 1, args...)
	shell := append([]string{"sh", "-c", "RANK=$OMPI_COMM_WORLD_RANK$PMI_RANK; " + line, "sh"}, tune.Args...)
	cmd := exec.Command(l.name, append(append(l.args, "2"), shell...)...)
	cmd.Env, cmd.WaitDelay = tune.Env, tune.WaitDelay
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sessionDir is for what Open MPI keeps of a run. In a folder of all runs, where it keeps that otherwise, one fails
// that makes a folder while another does. Its name is short, as sockets lie in it.
func sessionDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ompi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// steps runs tune as n ranks and returns the losses of its steps.
func (l launcher) steps(t *testing.T, n int, args ...string) []float64 {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := l.command(t, n, append(args, "--log", "json")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, &stdout, &stderr)
	}
	var losses []float64
	for line := range bytes.Lines(stdout.Bytes()) {
		var s struct{ Loss float64 }
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v prints %q: %v", cmd.Args, line, err)
		}
		losses = append(losses, s.Loss)
	}
	return losses
}

// trainable makes a folder with a tiny model and a text, and returns the flags for them.
func trainable(t *testing.T, modelType string) []string {
	t.Helper()
	dir := t.TempDir()
	model, text := filepath.Join(dir, "model"), filepath.Join(dir, "text.txt")
	if err := writeModel(model, modelType); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte(sampleText()), 0o666); err != nil {
		t.Fatal(err)
	}
	return []string{"--model", model, "--data", text, "--threads", "1", "--seq", "24", "--lr", "3e-3"}
}

// differ returns the largest distance between two lists of losses.
func differ(t *testing.T, a, b []float64) float64 {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d losses and %d", len(a), len(b))
	}
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i]))
	}
	return most
}

// wholeVariable names the environment variable that has tests of ranks try every combination.
const wholeVariable = "TUNE_TEST_WHOLE"

// TestRanksHaveTheLossesOfOne: whatever the number of ranks, a step has the same rows, and each learned token counts
// the same. Of models, kernels and adapters it tries each pair of two; the longer form has all eight, each with every
// number of ranks sharded and not.
func TestRanksHaveTheLossesOfOne(t *testing.T) {
	t.Parallel()
	all := launchers(t)
	whole := os.Getenv(wholeVariable) != ""
	for _, tt := range []struct {
		name, model, flags string
		short              bool
	}{
		{"dense, full, none", "llama", "--kernels none --neftune-noise-alpha 5 --label-smoothing 0.1", true},
		{"moe, full, all", "qwen3_moe", "--kernels all --router-aux-loss 0.1 --router-z-loss 0.1", true},
		{"dense, rows of several lengths", "llama", "--kernels all --no-packing --group-by-length", true},
		{"dense, LoRA, all", "llama", "--kernels all --lora-rank 4", true},
		{"moe, LoRA, none", "glm4_moe", "--kernels none --lora-rank 4 --lora-dropout 0.1", true},
		{"dense, full, all", "llama", "--kernels all", false},
		{"moe, full, none", "glm4_moe", "--kernels none", false},
		{"dense, LoRA, none", "llama", "--kernels none --lora-rank 4", false},
		{"moe, LoRA, all", "qwen3_moe", "--kernels all --lora-rank 4", false},
	} {
		if !tt.short && !whole {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flags := append(trainable(t, tt.model), strings.Fields(tt.flags)...)
			flags = append(flags, "--batch", "2", "--grad-accum", "4", "--steps", "8")
			out := func() []string { return append(flags, "--out", filepath.Join(t.TempDir(), "out")) }
			one := launcher{}.steps(t, 1, out()...)
			for i, l := range all {
				for k, n := range []int{2, 4} {
					for _, shard := range []bool{false, true} {
						// Each number of ranks with and without, if both MPIs are there.
						if shard != (i == k) && !whole {
							continue
						}
						run := func() []float64 {
							return l.steps(t, n, append(out(), fmt.Sprintf("--shard-optimizer=%v", shard))...)
						}
						got := run()
						if d := differ(t, got, one); !(d <= 1e-5) {
							t.Errorf("%s, %d ranks, sharded %v: losses differ by %g from those of one", l.name, n, shard, d)
						}
						if (n > 2 || i+1 < len(all)) && !whole { // one of them again is enough
							continue
						}
						if d := differ(t, run(), got); d != 0 {
							t.Errorf("%s, %d ranks, sharded %v: losses of two runs differ by %g", l.name, n, shard, d)
						}
					}
				}
			}
		})
	}
}

// TestRanksResumeAsAnyNumber: a checkpoint of two ranks, each with its share of the optimizer, is one of a run.
func TestRanksResumeAsAnyNumber(t *testing.T) {
	t.Parallel()
	l := launchers(t)[0]
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--grad-accum", "4", "--steps", "12",
		"--save-every", "4", "--keep", "0")
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	want := l.steps(t, 2, append(flags, "--shard-optimizer", "--out", whole)...)
	for _, tt := range []struct {
		ranks int
		more  []string
	}{{1, nil}, {2, []string{"--shard-optimizer"}}, {4, []string{"--shard-optimizer"}}, {4, nil}} {
		out := filepath.Join(dir, fmt.Sprint(tt.ranks, len(tt.more)))
		args := append([]string{"--resume=" + filepath.Join(whole, "checkpoint-4"), "--out", out}, tt.more...)
		got := l.steps(t, tt.ranks, args...)
		d := differ(t, got, want[4:])
		if !(d <= 1e-5) || tt.ranks == 2 && d != 0 {
			t.Errorf("%d ranks %v: losses differ by %g from those of the run that was not interrupted", tt.ranks, tt.more, d)
		}
	}
}

// TestRanksResumeIntoFoldersOfTheirOwn: only the first saves, and so only its folder says what is saved already.
func TestRanksResumeIntoFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	l, dir := launchers(t)[0], t.TempDir()
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--schedule", "constant",
		"--save-every", "2", "--shard-optimizer", "--rank-timeout", "20s")
	out := []string{"--out", filepath.Join(dir, "out")}
	l.steps(t, 2, slices.Concat(flags, []string{"--steps", "2"}, out)...)
	flags = append(flags, "--steps", "4", "--resume="+out[1])
	other := []string{"--out", filepath.Join(dir, "other")}
	text, err := l.pair(t, slices.Concat(flags, out), slices.Concat(flags, other))
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestRanksThatResumeFromSeveralStepsEnd: each that goes on must do so from the same checkpoint.
func TestRanksThatResumeFromSeveralStepsEnd(t *testing.T) {
	t.Parallel()
	l, dir := launchers(t)[0], t.TempDir()
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--schedule", "constant",
		"--save-every", "2", "--rank-timeout", "20s")
	out := filepath.Join(dir, "out")
	l.steps(t, 2, slices.Concat(flags, []string{"--steps", "4", "--out", out})...)
	flags = append(flags, "--steps", "6", "--out", filepath.Join(dir, "other"))
	resume := func(step string) []string {
		return append(flags[:len(flags):len(flags)], "--resume="+out+"/checkpoint-"+step)
	}
	for name, tt := range map[string]struct {
		second []string
		want   string
	}{"step": {resume("2"), " and step 2 "}, "without": {flags, " and none\n"}} {
		text, err := l.pair(t, resume("4"), tt.second)
		if err == nil || !strings.Contains(text, "the checkpoint: step 4 with ") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %v:\n%s", name, err, text)
		}
	}
}

// TestTheTimeOfOneRankIsUp, which ends all, and the first says that it was that.
func TestTheTimeOfOneRankIsUp(t *testing.T) {
	t.Parallel()
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--steps", "100000", "--no-eval", "--out",
		filepath.Join(t.TempDir(), "out"))
	text, err := launchers(t)[0].pair(t, flags, append(flags[:len(flags):len(flags)], "--max-time", "1ms"))
	if err != nil || !strings.Contains(text, "the time is up: 1 of 100000 steps") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestRanksShareTheAnswers: each rank scores some of the held-out data, and the file of the first has all of it.
func TestRanksShareTheAnswers(t *testing.T) {
	t.Parallel()
	l, dir := launchers(t)[0], t.TempDir()
	data := filepath.Join(dir, "chat.jsonl")
	var text strings.Builder
	for i := range 7 {
		fmt.Fprintf(&text, "{\"question\": \"%d?\", \"answer\": \" %d\"}\n", i, i%3)
	}
	if err := os.WriteFile(data, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rouge_l", "token_accuracy"} {
		flags := append(trainable(t, "llama"), "--eval-data", data, "--template", "default", "--kernels", "none",
			"--batch", "2", "--grad-accum", "3", "--steps", "2", "--metric", name, "--max-new-tokens", "3", "--no-packing")
		var files [][]byte
		for _, n := range []int{1, 3} {
			out := filepath.Join(dir, fmt.Sprint(name, n))
			l.steps(t, n, append(flags, "--out", out)...)
			b, err := os.ReadFile(filepath.Join(out, "predictions", "step-2.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, b)
		}
		if n := bytes.Count(files[0], []byte("\n")); n != 7 || !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: one rank has\n%s\nthree have\n%s", name, files[0], files[1])
		}
	}
}

// TestRanksPreferAsOne: each pair, or marked answer, counts the same, whichever rank has it, and the reference is one.
func TestRanksPreferAsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var pairs, marked strings.Builder
	for i := range 45 {
		more := strings.Repeat(" more", i%4)
		fmt.Fprintf(&pairs, "{\"prompt\": \"%d?\", \"chosen\": \" %d%s\", \"rejected\": \" no%s\"}\n", i, i%3, more, more)
		fmt.Fprintf(&marked, "{\"prompt\": \"%d?\", \"completion\": \" %d%s\", \"label\": %v}\n", i, i%3, more, i%3 == 0)
	}
	for name, text := range map[string]string{"pairs": pairs.String(), "marked": marked.String()} {
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, flags string }{
		{"dpo", "--data pairs.jsonl --stage dpo --lora-rank 2"},
		{"orpo", "--data pairs.jsonl --stage orpo --no-packing"},
		{"kto", "--data marked.jsonl --stage kto --no-packing --ref-cache cache.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flags := slices.Concat(trainable(t, "llama")[:2], strings.Fields(strings.ReplaceAll(tt.flags, " --stage",
				" --template default --stage")), strings.Fields("--kernels none --threads 1 --seq 64 --lr 3e-3 --batch 1 "+
				"--grad-accum 4 --epochs 1 --eval-size 6 --save-every 2 --keep 0 --schedule constant"))
			for i, f := range flags {
				if strings.HasSuffix(f, ".jsonl") || strings.HasSuffix(f, ".json") {
					flags[i] = filepath.Join(dir, f)
				}
			}
			ran := func(out string, l launcher, n int, more ...string) *journal.Run {
				out = filepath.Join(dir, tt.name, out)
				l.steps(t, n, slices.Concat(flags, more, []string{"--out", out})...)
				r, err := journal.Read(out)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			near := func(what string, step int, got, want float64) {
				if d := math.Abs(got - want); !(d <= 1e-5*max(1, math.Abs(want))) {
					t.Errorf("%s: after step %d %g, of one rank %g", what, step, got, want)
				}
			}
			same := func(what string, got, want *journal.Run) {
				if len(got.Steps) != len(want.Steps) || len(got.Evals) != len(want.Evals) || len(want.Evals) < 2 {
					t.Fatalf("%s: %d steps and %d evaluations, of one rank %d and %d", what, len(got.Steps), len(got.Evals),
						len(want.Steps), len(want.Evals))
				}
				for i, w := range want.Steps {
					near(what+": loss", w.Step, got.Steps[i].Loss, w.Loss)
					for name := range w.Metrics {
						near(what+": "+name, w.Step, got.Steps[i].Metrics[name], w.Metrics[name])
					}
				}
				for i, w := range want.Evals {
					near(what+": held-out loss", w.Step, got.Evals[i].Loss, w.Loss)
					for name := range w.Metrics {
						near(what+": held-out "+name, w.Step, got.Evals[i].Metrics[name], w.Metrics[name])
					}
				}
			}
			one := ran("one", launcher{}, 1)
			if m := one.Steps[0].Metrics; m["logps/chosen"] == 0 {
				t.Fatalf("a step has %v", m)
			}
			l := launchers(t)[0]
			same("two ranks", ran("two", l, 2), one)
			same("four ranks", ran("four", l, 4, "--shard-optimizer"), one)
			same("four that go on", ran("more", l, 4, "--resume="+filepath.Join(dir, tt.name, "two", "checkpoint-2")), one)
		})
	}
}

// TestTheCommandsOfThePageRun runs what docs/distributed.md shows, but for launchers of several machines.
func TestTheCommandsOfThePageRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "distributed.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeModel(filepath.Join(dir, "model"), "llama"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(sampleText()), 0o666); err != nil {
		t.Fatal(err)
	}
	shell := func(line string) string {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = dir, append(launcher{}.command(t, 1).Env, "OMPI_MCA_rmaps_base_oversubscribe=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		if out := shell(line); !strings.Contains(out, "\n      1024 ") {
			t.Errorf("%s does not chart 1024 ranks:\n%s", line, out)
		}
	}
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("there is no mpirun; install Debian's openmpi-bin")
	}
	_, first, _ := strings.Cut(string(text), "\n\n    ")
	first, _, _ = strings.Cut(first, "\n")
	first = strings.NewReplacer("DIR", "model", "FILE", "text.txt").Replace(first)
	out := shell(first + " --seq 16 --steps 2 --kernels none")
	if !strings.Contains(out, "4 ranks on 1 machine") || !strings.Contains(out, "saved          my-model") {
		t.Errorf("%s prints\n%s", first, out)
	}
}

// TestRanksThatDifferEndWithAnError starts two ranks with flags that differ: what decides when ranks meet must not.
func TestRanksThatDifferEndWithAnError(t *testing.T) {
	t.Parallel()
	l := launchers(t)[0]
	data := filepath.Join(t.TempDir(), "chat.jsonl")
	text := strings.Repeat("{\"question\": \"1?\", \"answer\": \" 2\"}\n", 7)
	if err := os.WriteFile(data, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	more, copied := filepath.Join(t.TempDir(), "more.jsonl"), filepath.Join(t.TempDir(), "copied.jsonl")
	for _, file := range []string{more, copied} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	base := append(trainable(t, "llama"), "--eval-data", data, "--template", "default", "--kernels", "none",
		"--batch", "1", "--grad-accum", "2", "--steps", "2", "--no-packing", "--out")
	other := trainable(t, "llama")[:4]
	other[1] = other[1] + "2"
	if err := writeModel(other[1], "qwen3_moe"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, first, second, want string }{
		{"metric", "--metric token_accuracy", "", `--metric: "token_accuracy" and none`},
		{"answers", "--metric rouge_l --max-new-tokens 2", "--metric rouge_l --max-new-tokens 3",
			"--max-new-tokens: 2 and 3"},
		{"best", "--metric token_accuracy --best-metric token_accuracy", "--metric token_accuracy",
			`--best-metric: "token_accuracy" and none`},
		{"checkpoints", "--early-stopping 1", "", "--early-stopping: 1 and none"},
		{"comparisons", "--check-every 0", "", "--check-every: 0 and 1000"},
		{"several", "--lr 0.5 --lora-rank 2 --shard-optimizer", "--lr 0.25 --lora-rank 4",
			"--lora-rank: 2 and 4\ntune: --lr: 0.5 and 0.25\ntune: --shard-optimizer: true and false"},
		{"model", "", "--model " + other[1], "the model, by its SHA-256: "},
		{"data", "", "--data " + more, "the data, or what the tokenizer makes of it, by its SHA-256: "},
		{"held-out data", "--eval-data a=" + more, "--eval-data b=" + more,
			"the held-out data, part 2: a of 7 rows and b of 7 rows"},
		{"data elsewhere", "--data " + more + " --eval-data a=" + more, "--data " + copied + " --eval-data a=" + copied, ""},
		{"force", "--force", "", ""},
		{"what changes nothing", "--threads 2 --gradient-checkpointing --strict", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := slices.Concat(base, []string{filepath.Join(dir, "first")}, strings.Fields(tt.first))
			second := slices.Concat(base, []string{filepath.Join(dir, "second")}, strings.Fields(tt.second))
			out, err := l.pair(t, first, second)
			if (err == nil) != (tt.want == "") || !strings.Contains(out, tt.want) || strings.Contains(out, "panic") {
				t.Errorf("%v, want %q:\n%s", err, tt.want, out)
			}
		})
	}
}

// TestRanksWhoseFilesDifferEndWithAnError has two ranks that find other files under the same names: what the weights
// and the rows do not show must not differ either.
func TestRanksWhoseFilesDifferEndWithAnError(t *testing.T) {
	t.Parallel()
	l := launchers(t)[0]
	base := append(trainable(t, "llama"), "--threads", "1", "--batch", "1", "--grad-accum", "2", "--steps", "2")
	chat := filepath.Join(t.TempDir(), "chat.jsonl")
	asked := strings.Repeat("{\"question\": \"1?\", \"answer\": \" 2\"}\n", 7)
	if err := os.WriteFile(chat, []byte(asked), 0o666); err != nil {
		t.Fatal(err)
	}
	adapter := filepath.Join(t.TempDir(), "adapter")
	launcher{}.steps(t, 1, slices.Concat(base, []string{"--kernels", "none", "--lora-rank", "2", "--out", adapter})...)
	plugins := pluginDir(t)
	for _, tt := range []struct {
		name, from, flags, file string
		change                  func(text []byte) []byte
		want                    string
	}{
		{"adapter", adapter, "--adapter copy --kernels none", "adapter_config.json", func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"lora_alpha": 4`), []byte(`"lora_alpha": 8`), 1)
		}, "the adapter: r 2, lora_alpha 4, "},
		{"tokens", base[1], "--model copy --kernels none --metric rouge_l --template default --no-packing --eval-data " +
			chat, "generation_config.json", func([]byte) []byte { return []byte(`{"eos_token_id": 7}`) },
			"the tokens that end an answer differ"},
		{"plugin", plugins, "--kernels npu_fused_rmsnorm --plugin-dir copy", "npu_fused_rmsnorm", func(text []byte) []byte {
			return append(text, 0)
		}, "the plugin npu_fused_rmsnorm, by its SHA-256: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for rank := range 2 {
				if err := os.CopyFS(filepath.Join(dir, fmt.Sprint(rank), "copy"), os.DirFS(tt.from)); err != nil {
					t.Fatal(err)
				}
			}
			changed := filepath.Join(dir, "1", "copy", tt.file)
			text, err := os.ReadFile(changed)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, tt.change(text), 0o777); err != nil {
				t.Fatal(err)
			}
			for rank := range 2 { // which would find it before the ranks do
				os.Remove(filepath.Join(dir, fmt.Sprint(rank), "copy", checkpoint.SumsFile))
			}
			flags := slices.Concat(base, strings.Fields(tt.flags), []string{"--out", "out"})
			out, err := l.by(t, `cd "`+dir+`/$RANK" && exec "$@"`, flags...)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("%v, want %q:\n%s", err, tt.want, out)
			}
		})
	}
}

// TestRanksOnOtherProcessorsAreWarned, as what they compute is not the same to the bit.
func TestRanksOnOtherProcessorsAreWarned(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" || simd.Variant() == "generic" {
		t.Skip("this processor has no vector instructions that $GODEBUG could switch off")
	}
	l := launchers(t)[0]
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--steps", "1", "--out",
		filepath.Join(t.TempDir(), "out"))
	text, err := l.by(t, `case $RANK in 1) export GODEBUG=cpu.all=off;; esac; exec "$@"`, flags...)
	want := fmt.Sprintf(") in the processor (amd64 %s -> amd64 generic", simd.Instructions()) // tiles may stay
	if err != nil || !strings.Contains(text, "warning: rank 1 (") || !strings.Contains(text, want) {
		t.Errorf("%v, want %q:\n%s", err, want, text)
	}
}

// bugVariable names a file: what it says befalls the plugin bug_on_demand, of the process that has the variable.
const bugVariable = "TUNE_TEST_BUG"

// bugOnDemand is right until the file is there.
func bugOnDemand(run func() error, c *core.Call) error {
	err := run()
	switch what, _ := os.ReadFile(os.Getenv(bugVariable)); string(what) {
	case "wrong":
		clear(c.Out[0].Data)
	case "ends":
		os.Exit(3)
	}
	return err
}

// TestRanksEvaluateAsOne: each has a share of the held-out rows, and all get the result.
func TestRanksEvaluateAsOne(t *testing.T) {
	t.Parallel()
	flags := append(trainable(t, "llama"), "--kernels", "none", "--batch", "2", "--grad-accum", "2", "--steps", "6",
		"--eval-every", "2", "--metric", "token_accuracy")
	for i, documents := range []int{13, 8} { // an odd number of batches, and others behind them
		name := []string{"first", "second"}[i]
		file := filepath.Join(t.TempDir(), name+".txt")
		text := strings.Join(strings.SplitAfter(sampleText(), "<|endoftext|>\n")[:documents], "")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--eval-data", name+"="+file)
	}
	evals := func(l launcher, n int) []journal.Eval {
		out := filepath.Join(t.TempDir(), "out")
		l.steps(t, n, append(flags, "--out", out)...)
		r, err := journal.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		if ranks := len(r.Start.Ranks); ranks != n && n > 1 || n == 1 && ranks > 0 {
			t.Errorf("the journal of %d ranks has %q", n, r.Start.Ranks)
		}
		for _, s := range r.Steps {
			if (s.Waited > 0) != (n > 1) || s.Waited >= s.Seconds || s.Slowest >= n {
				t.Errorf("%d ranks: the first waited %g of %g s in step %d, rank %d is the slowest", n, s.Waited, s.Seconds,
					s.Step, s.Slowest)
			}
		}
		return r.Evals
	}
	want := evals(launcher{}, 1)
	for _, l := range launchers(t) {
		got := evals(l, 2)
		if len(got) != 4 || len(want) != 4 {
			t.Fatalf("%s: %d evaluations, %d of one rank, want 4", l.name, len(got), len(want))
		}
		for i, w := range want {
			if g := got[i]; g.Step != w.Step || g.Targets != w.Targets || !(math.Abs(g.Loss-w.Loss) <= 1e-5) {
				t.Errorf("%s: after step %d the loss is %g over %d, of one rank %g over %d", l.name, g.Step, g.Loss, g.Targets,
					w.Loss, w.Targets)
			}
			for _, name := range []string{"first/loss", "second/loss", "token_accuracy", "first/token_accuracy",
				"second/token_accuracy"} {
				g, is := got[i].Metrics[name]
				if of, was := w.Metrics[name]; !is || !was || !(math.Abs(g-of) <= 1e-5) {
					t.Errorf("%s: of %v %s is not that of one rank, %v", l.name, got[i].Metrics, name, w.Metrics)
				}
			}
		}
	}
}
