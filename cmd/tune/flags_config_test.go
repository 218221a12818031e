package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/cmd/tune/internal/configfile"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/progress"
)

// trainWith returns train's command after reading the file and the arguments, and the
// notes that it makes.
func trainWith(t *testing.T, file string, args ...string) (c *Command, notes string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	a := &app{stdout: io.Discard, stderr: progress.New(io.Discard, &stderr)}
	c = a.trainCommand()
	if err := c.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	f := configFile{path: path}
	if file == "" { // no --config
		f.path = ""
	}
	err = f.apply(c, a.note)
	return c, stderr.String(), err
}

// TestConfigFileSetsTrainsFlags is about flags whose types are not pflag's, and words that other packages have for
// what a key says.
func TestConfigFileSetsTrainsFlags(t *testing.T) {
	const theirs = "model_name_or_path: m\n"
	tests := []struct{ name, file, flag, want string }{
		{"a number in another spelling", "learning_rate: 1.0e-4", "lr", "0.0001"},
		{"truth in words", "gradient_checkpointing: yes", "gradient-checkpointing", "true"},
		{"a list", "kernels: [npu_fused_rope, npu_fused_moe]", "kernels", "npu_fused_rope,npu_fused_moe"},
		{"a share to evaluate on", "val_size: 0.1", "eval-size", "0.1"},
		{"a number to evaluate on", "val_size: 500", "eval-size", "500"},
		{"nothing to evaluate on", "val_size: 0.0", "eval-size", "0"},
		{"what is not said of it", "val_size: null", "eval-size", ""},
		{"probabilities", "interleave_probs: 0.3,0.7", "mix-probs", "0.3,0.7"},
		{"spaces between probabilities", "interleave_probs: 0.3, 0.7", "mix-probs", "0.3,0.7"},
		{"adapters of some layers", "lora_rank: 2\nlora_layers: [0, 2]", "lora-layers", "0,2"},
		{"adapters of a range", "lora_rank: 2\nlora_layers: 0,4-6", "lora-layers", "0,4,5,6"},
		{"adapters everywhere", "lora_target: all", "lora-target", "[all-linear]"},
		{"variables of the template", "template_args: {a: 1, b: x}", "template-args", "[a=1,b=x]"},
		{"data sets in one list", "mix_strategy: concat\ndataset: a,b", "data", `["a,b"]`},
		{"parameters of a schedule", "lr_scheduler_kwargs: {power: 2, lr_end: 1e-8}", "schedule-args",
			"lr_end=1e-8,power=2"},
		{"parts of layers", `gradient_checkpointing: "layers.0,layers.1.mlp"`, "gradient-checkpointing",
			"layers.0,layers.1.mlp"},
		{"the best by the loss", "metric_for_best_model: eval_loss", "best-metric", trainer.BestLoss},
		{"by tokens", "metric_for_best_model: accuracy", "best-metric", string(metric.TokenAccuracy)},
		{"by words in order", "metric_for_best_model: rouge-l", "best-metric", string(metric.RougeL)},
		{"by whole answers", "metric_for_best_model: eval_exact_match", "best-metric", string(metric.ExactMatch)},
		{"which is measured then", theirs + "metric_for_best_model: rouge-l", "metric", string(metric.RougeL)},
		{"and the loss always is", theirs + "metric_for_best_model: eval_loss", "metric", ""},
		{"a score", "compute_accuracy: true", "metric", string(metric.TokenAccuracy)},
		{"Muon", theirs + "use_muon: true", "optim", string(optim.Muon)},
		{"SGD without momentum", theirs + "optim: " + string(optim.SGD), "momentum", "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := trainWith(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("--%s is %q, want %q", tt.flag, got, tt.want)
			}
		})
	}
}

func TestCommandLineWinsOverConfigFile(t *testing.T) {
	c, _, err := trainWith(t, "learning_rate: 1\nbatch: 2", "--lr", "3")
	if err != nil {
		t.Fatal(err)
	}
	if lr, batch := c.Flags.Lookup("lr").Value.String(), c.Flags.Lookup("batch").Value.String(); lr != "3" ||
		batch != "2" {
		t.Errorf("lr %s, batch %s; want 3 and 2", lr, batch)
	}
}

// A file may say in another way what the command line says, and in one that would come before it.
func TestCommandLineWinsOverOtherWordsOfTheFile(t *testing.T) {
	const theirs = "model_name_or_path: m\nfinetuning_type: full\n"
	for _, tt := range []struct{ file, arg, other, want string }{
		{"max_steps: 7", "--epochs=2", "steps", "0"},
		{"warmup: 5", "--warmup-ratio=0.5", "warmup", "0"},
		{"save_epochs: 1", "--save-every=5", "save-epochs", "0"},
		{"eval_epochs: 1", "--eval-every=5", "eval-epochs", "0"},
		{"no_eval: true", "--eval-every=5", "no-eval", "false"},
		{"no_eval: true", "--eval-epochs=1", "no-eval", "false"},
		{theirs + "save_strategy: epoch", "--save-every=5", "save-epochs", "0"},
		{theirs + "val_size: 0.1\neval_strategy: epoch", "--eval-every=5", "eval-epochs", "0"},
		{theirs + "val_size: 0.1", "--eval-every=5", "no-eval", "false"},
		{"max_steps: 7", "--warmup=2", "steps", "7"},
	} {
		c, _, err := trainWith(t, tt.file, tt.arg)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Flags.Lookup(tt.other).Value.String(); got != tt.want {
			t.Errorf("%q with %s: --%s is %s, want %s", tt.file, tt.arg, tt.other, got, tt.want)
		}
	}
	c, _, err := trainWith(t, "steps: 7", "--epochs=2", "--steps=3")
	if err != nil || c.Flags.Lookup("steps").Value.String() != "3" {
		t.Errorf("steps %s, want the 3 of the command line (%v)", c.Flags.Lookup("steps").Value, err)
	}
}

// TestConfigFileErrorsSayWhatTrainTakes is about the types of train's flags.
func TestConfigFileErrorsSayWhatTrainTakes(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown key", "\nlearning_rte: 1", "run.yaml:2: learning_rte: unknown key; did you mean learning_rate?"},
		{"not a number", "lr: fast", `run.yaml:1: lr: "fast" does not fit; it must be a number`},
		{"a time without a unit", "max_time: 90", `max_time: "90" does not fit; it must be a time ` +
			`with its unit, such as 90s`},
		{"a probability that is none", "mix: interleave_under\nmix_probs: 0.3,a",
			`mix_probs: "0.3,a" does not fit; it must be numbers with commas between, such as 0.7,0.3`},
		{"a layer that is none", "lora_layers: 1,x", `lora_layers: "x" is no number, or range, of layers`},
		{"a parameter that is none", "schedule_args: x", `schedule_args: optim: "x" is not of the form name=value`},
		{"a share that is none", "val_size: some", `val_size: "some" does not fit; it must be a number`},
		{"no YAML", "a: b: c", "run.yaml: mapping values are not allowed"},
		{"no optimizer", "optim: some", `optim: "some" does not fit; it must be one of `},
		{"no parts of layers", "gradient_checkpointing: some", `gradient_checkpointing: "some" does not fit; it must be ` +
			recomputeKinds},
		{"which the opposite has not", "disable_gradient_checkpointing: some",
			`"some" does not fit; it must be false or true`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := trainWith(t, tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestTheirNamesAreOfFlags: each name leads to a flag, and none hides a flag of ours. No flag is said to be foreign.
func TestTheirNamesAreOfFlags(t *testing.T) {
	c := (&app{}).trainCommand()
	theirs := configfile.Theirs()
	for _, key := range theirs {
		if name := configfile.Ours(key); name != "" && c.Flags.Lookup(name) == nil {
			t.Errorf("%s stands for --%s, which does not exist", key, name)
		}
	}
	c.Flags.VisitAll(func(f *pflag.Flag) {
		key := strings.ReplaceAll(f.Name, "-", "_")
		if slices.Contains(theirs, key) && key != "report_to" { // which is of both
			t.Errorf("--%s is hidden by LLaMA-Factory's %s", f.Name, key)
		}
		if configfile.ForeignSentence(key) != "" {
			t.Errorf("%s is a flag, and its sentence is never said", key)
		}
	})
}

func TestPrintedConfigIsReadAsItWas(t *testing.T) {
	first, _, err := trainWith(t, "", "--lr", "3e-5", "--model", "1e5", "--kernels", "auto,-npu_fused_rope", "--strict",
		"--data", "a.json,b@2", "--data", "c, d", "--eval-size", "0")
	if err != nil {
		t.Fatal(err)
	}
	var text, again bytes.Buffer
	if err := new(configFile).write(&text, first); err != nil {
		t.Fatal(err)
	}
	second, _, err := trainWith(t, text.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, &text)
	}
	if err := new(configFile).write(&again, second); err != nil {
		t.Fatal(err)
	}
	if text.String() != again.String() || !strings.Contains(text.String(), `model: "1e5"`) {
		t.Errorf("printed\n%s\nread and printed\n%s", &text, &again)
	}
}
