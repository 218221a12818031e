package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/testdata"
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

func TestConfigFileSetsFlags(t *testing.T) {
	tests := []struct{ name, file, flag, want string }{
		{"our name", "grad_accum: 4", "grad-accum", "4"},
		{"the other name", "gradient_accumulation_steps: 4", "grad-accum", "4"},
		{"a number in another spelling", "learning_rate: 1.0e-4", "lr", "0.0001"},
		{"steps without a limit", "max_steps: -1", "steps", "0"},
		{"a schedule of another name", "lr_scheduler_type: constant_with_warmup", "schedule", "constant_with_warmup"},
		{"truth in words", "gradient_checkpointing: yes", "gradient-checkpointing", "true"},
		{"nothing", "seq: null", "seq", "256"},
		{"a quoted word", `model: "yes"`, "model", "yes"},
		{"a list", "kernels: [npu_fused_rope, npu_fused_moe]", "kernels", "npu_fused_rope,npu_fused_moe"},
		{"an alias", "batch: &n 7\ngrad_accum: *n", "grad-accum", "7"},
		{"packing is the opposite of a flag", "packing: true", "no-packing", "false"},
		{"and its opposite", "packing: False", "no-packing", "true"},
		{"rows by their lengths", "packing: false\ngroup_by_length: true", "group-by-length", "true"},
		{"which has two names", "packing: false\ntrain_sampling_strategy: group_by_length", "group-by-length", "true"},
		{"and an opposite", "train_sampling_strategy: random", "group-by-length", "false"},
		{"checkpointing not disabled", "disable_gradient_checkpointing: false", "gradient-checkpointing", "true"},
		{"a share to evaluate on", "val_size: 0.1", "eval-size", "0.1"},
		{"a number to evaluate on", "val_size: 500", "eval-size", "500"},
		{"nothing to evaluate on", "val_size: 0.0", "eval-size", "0"},
		{"what is not said of it", "val_size: null", "eval-size", ""},
		{"a limit", "max_samples: 1000", "max-samples", "1000"},
		{"LoRA", "finetuning_type: lora", "lora-rank", "8"},
		{"LoRA with a rank", "lora_rank: 16\nfinetuning_type: lora", "lora-rank", "16"},
		{"LoRA without one", "finetuning_type: lora\nlora_rank: null", "lora-rank", "8"},
		{"LoRA with an adapter", "finetuning_type: lora\nadapter_name_or_path: a", "lora-rank", "0"},
		{"all weights", "finetuning_type: full", "lora-rank", "0"},
		{"adapters everywhere", "lora_target: all", "lora-target", "[all-linear]"},
		{"adapters here and there", "lora_target: q_proj,v_proj", "lora-target", "[q_proj,v_proj]"},
		{"adapters everywhere, as a list", "lora_target: [all]", "lora-target", "[all-linear]"},
		{"a list of targets", "lora_target: [q_proj, v_proj]", "lora-target", "[q_proj,v_proj]"},
		{"an adapter", "adapter_name_or_path: a/b", "adapter", "a/b"},
		{"weights in 8 bits", "quantization_bit: 8", "base-int8", "true"},
		{"weights in 4 bits", "quantization_bit: 4", "base-nf4", "true"},
		{"evaluations", "eval_steps: 50", "eval-every", "50"},
		{"no resuming", "resume_from_checkpoint: null\nbatch: 2", "batch", "2"},
		{"interleaving", "mix_strategy: interleave_under", "mix", "interleave_under"},
		{"probabilities", "interleave_probs: 0.3,0.7", "mix-probs", "0.3,0.7"},
		{"a warm-up", "warmup_steps: 20", "warmup", "20"},
		{"a warm-up that is a share", "warmup_steps: 0.1", "warmup-ratio", "0.1"},
		{"noise", "neftune_noise_alpha: 5", "neftune-noise-alpha", "5"},
		{"smooth labels", "label_smoothing_factor: 0.1", "label-smoothing", "0.1"},
		{"even experts", "moe_aux_loss_coef: 0.001", "router-aux-loss", "0.001"},
		{"modules beside adapters", "additional_target: embed_tokens,lm_head", "train-modules", "[embed_tokens,lm_head]"},
		{"layers", "finetuning_type: freeze", "train-layers", "2"},
		{"the first layers", "finetuning_type: freeze\nfreeze_trainable_layers: -3", "train-layers", "-3"},
		{"adapters of some layers", "lora_rank: 2\nlora_layers: [0, 2]", "lora-layers", "0,2"},
		{"adapters of a range", "lora_rank: 2\nlora_layers: 0,4-6", "lora-layers", "0,4,5,6"},
		{"new tokens", "add_tokens: [<a>, <b>]", "add-tokens", "[<a>,<b>]"},
		{"new tokens without text", "new_special_tokens: <a>,<b>", "add-special-tokens", "[<a>,<b>]"},
		{"a larger model", "resize_vocab: true", "pad-vocab", "64"},
		{"history", "mask_history: true", "mask-history", "true"},
		{"a system prompt", "default_system: Be kind.", "system", "Be kind."},
		{"thinking", "enable_thinking: false", "template-args", "[enable_thinking=false]"},
		{"variables of the template", "template_args: {a: 1, b: x}", "template-args", "[a=1,b=x]"},
		{"spaces between probabilities", "interleave_probs: 0.3, 0.7", "mix-probs", "0.3,0.7"},
		{"spaces between names", "lora_target: q_proj, v_proj", "lora-target", "[q_proj,v_proj]"},
		{"spaces between tokens", `new_special_tokens: "<a>, <b>"`, "add-special-tokens", "[<a>,<b>]"},
		{"a token that begins with one, in a list", `add_tokens: [" a", b]`, "add-tokens", `[" a",b]`},
		{"data sets in one list", "mix_strategy: concat\ndataset: a,b", "data", `["a,b"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, notes, err := trainWith(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("--%s is %q, want %q", tt.flag, got, tt.want)
			}
			if notes != "" {
				t.Errorf("notes: %s", notes)
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

func TestMethodOnTheCommandLineWins(t *testing.T) {
	for _, tt := range []struct{ file, arg string }{{"finetuning_type: lora", "--lora-rank=0"},
		{"finetuning_type: full", "--lora-rank=4"}} {
		c, _, err := trainWith(t, tt.file, tt.arg)
		if err != nil {
			t.Fatal(err)
		}
		if got := "--lora-rank=" + c.Flags.Lookup("lora-rank").Value.String(); got != tt.arg {
			t.Errorf("%s with %s: %s", tt.file, tt.arg, got)
		}
	}
}

func TestConfigFileErrorsNameLineKeyAndRemedy(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown key", "\nlearning_rte: 1", "run.yaml:2: learning_rte: unknown key; did you mean learning_rate?"},
		{"not a number", "lr: fast", `run.yaml:1: lr: "fast" does not fit; it must be a number`},
		{"a time without a unit", "max_time: 90", `max_time: "90" does not fit; it must be a time ` +
			`with its unit, such as 90s`},
		{"not true or false", "strict: maybe", `strict: "maybe" does not fit; it must be true or false`},
		{"two names of one flag", "lr: 1\nlearning_rate: 1", "run.yaml:2: learning_rate: lr has set it already"},
		{"one key twice", "lr: 1\nlr: 1", "lr has set it already"},
		{"what cannot be done", "do_predict: true", `do_predict: "true" is not supported; tune can do false here`},
		{"packing that is neither", "packing: maybe", `packing: "maybe" does not fit; it must be false or true`},
		{"packing by a number", "packing: 1", `packing: "1" does not fit; it must be false or true`},
		{"another order", "train_sampling_strategy: sequential", `"sequential" does not fit; it must be ` +
			`group_by_length or random`},
		{"a truth for bits", "quantization_bit: true", `quantization_bit: "true" does not fit; it must be 4 or 8`},
		{"three bits", "quantization_bit: 3", `quantization_bit: "3" does not fit; it must be 4 or 8`},
		{"another method", "finetuning_type: oft", `"oft" is not supported; tune can do lora, full, freeze here`},
		{"layers and adapters", "finetuning_type: freeze\nlora_rank: 8", "finetuning_type is freeze, but lora_rank is " +
			"given too"},
		{"two methods", "finetuning_type: full\nlora_rank: 8", "run.yaml: finetuning_type is full, but lora_rank is " +
			"given too: leave one of them out"},
		{"resuming by the file", "resume_from_checkpoint: out/checkpoint-5",
			"run.yaml:1: resume_from_checkpoint: \"out/checkpoint-5\" is not supported; leave it out, and resume with tune " +
				"--resume"},
		{"a probability that is none", "mix: interleave_under\nmix_probs: 0.3,a",
			`mix_probs: "0.3,a" does not fit; it must be numbers with commas between, such as 0.7,0.3`},
		{"a layer that is none", "lora_layers: 1,x", `lora_layers: "x" is no number, or range, of layers`},
		{"a parameter that is none", "schedule_args: x", `schedule_args: optim: "x" is not of the form name=value`},
		{"a share of all steps", "eval_steps: 0.2",
			"eval_steps: 0.2 is a share of all steps: say how many steps, or with eval_epochs how many epochs"},
		{"a share that is none", "val_size: some", `val_size: "some" does not fit; it must be a number`},
		{"a mapping", "lr: {a: 1}", "want a single value"},
		{"nested lists", "kernels: [[a]]", "single values only"},
		{"the file itself", "config: other.yaml", "config: unknown key"},
		{"no mapping", "- a", "want lines of the form key: value"},
		{"no YAML", "a: b: c", "run.yaml: mapping values are not allowed"},
		{"nothing", "# nothing\n", "run.yaml: it sets nothing; leave --config out"},
		{"null", "---\n", "run.yaml: it sets nothing"},
		{"no keys", "{}", "run.yaml: it sets nothing"},
		{"two documents", "lr: 1\n---\nlr: 2", "more than one YAML document"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := trainWith(t, tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestConfigFileTellsOfKeysWithoutMeaning(t *testing.T) {
	_, notes, err := trainWith(t, "logging_steps: 10\nplot_loss: true\nbatch: 2")
	if err != nil || !strings.Contains(notes, "of no effect here: logging_steps, plot_loss") {
		t.Errorf("notes %q, error %v", notes, err)
	}
}

// TestTheirNamesAreOfFlags: each name leads to a flag, and none hides a flag of ours.
func TestTheirNamesAreOfFlags(t *testing.T) {
	c := (&app{}).trainCommand()
	for key, name := range theirNames {
		if c.Flags.Lookup(name) == nil {
			t.Errorf("%s stands for --%s, which does not exist", key, name)
		}
	}
	c.Flags.VisitAll(func(f *pflag.Flag) {
		key := strings.ReplaceAll(f.Name, "-", "_")
		if _, is := fixed[key]; is || theirNames[key] != "" {
			t.Errorf("--%s is hidden by LLaMA-Factory's %s", f.Name, key)
		}
	})
	for key := range remedies {
		if _, ok := fixed[key]; !ok {
			t.Errorf("the remedy for %s is never said", key)
		}
	}
}

// TestConfigPageNamesEveryKey: docs/config.md lists what of LLaMA-Factory's is known.
func TestConfigPageNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(theirNames)), slices.Collect(maps.Keys(fixed)),
		slices.Collect(maps.Keys(differs)), withoutMeaning, together) {
		if !bytes.Contains(page, []byte("`"+key+"`")) {
			t.Errorf("docs/config.md does not name %s", key)
		}
	}
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

func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{"lr: 1", "a: &x [1, *x]", "a: *a", "{", "? [a]\n: b", "lr: !!binary x", "<<: {lr: 1}",
		"- \n- "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := (&app{stdout: io.Discard, stderr: progress.New(io.Discard, io.Discard)}).trainCommand()
		s := settings{file: "run.yaml", command: c, given: map[string]bool{}, from: map[string]string{}}
		if err := s.read([]byte(text)); err != nil && !strings.HasPrefix(err.Error(), "run.yaml") {
			t.Errorf("error %q does not name the file", err)
		}
	})
}
