package configfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/testdata"
)

// trainFlags are flags as tune train has them: those that keys of LLaMA-Factory stand for, those that Read looks at,
// and one at least of each type.
func trainFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("tune train", pflag.ContinueOnError)
	all := func(names string, add func(name, value string)) {
		for word := range strings.FieldsSeq(names) {
			name, value, _ := strings.Cut(word, "=")
			add(name, value)
		}
	}
	all("adapter best-metric config dataset-dir kernels=auto lora-init metric mix=concat model precision=float32 "+
		"resume schedule=cosine stage=sft system template tensorboard", func(name, value string) {
		f.String(name, value, "")
	})
	all("base-int8 base-nf4 cut-long force gradient-checkpointing group-by-length load-best-at-end lora-dora "+
		"lora-rslora mask-history muon-match-rms no-eval no-packing print-config strict", func(name, _ string) {
		f.Bool(name, false, "")
	})
	all("batch=4 early-stopping eval-every grad-accum=1 keep=2 lora-rank max-samples pad-vocab save-every seq=256 "+
		"steps train-layers warmup", func(name, value string) {
		n, _ := strconv.Atoi(value)
		f.Int(name, n, "")
	})
	all("clip=1 epochs=1 eval-epochs label-smoothing lr=0.0001 neftune-noise-alpha router-aux-loss save-epochs "+
		"warmup-ratio weight-decay=0.01", func(name, value string) {
		x, _ := strconv.ParseFloat(value, 64)
		f.Float64(name, x, "")
	})
	all("data eval-data", func(name, _ string) { f.StringArray(name, nil, "") })
	all("add-special-tokens add-tokens lora-target report-to template-args train-modules",
		func(name, _ string) { f.StringSlice(name, nil, "") })
	f.Uint64("seed", 0, "")
	f.Duration("max-time", 0, "")
	f.Var(&checked{kind: "string", part: "="}, "schedule-args", "")
	f.Var(&checked{kind: "numbers", part: "."}, "mix-probs", "")
	f.Var(&checked{kind: "float64"}, "eval-size", "")
	f.Var(&checked{kind: "decay"}, "momentum", "")
	f.Var(&checked{kind: "optimizer", text: "adamw"}, "optim", "")
	return f
}

// checked is a flag of a type that pflag does not have. It takes what some text is a part of.
type checked struct{ kind, part, text string }

// Type implements pflag.Value.
func (c *checked) Type() string { return c.kind }

// String implements pflag.Value.
func (c *checked) String() string { return c.text }

// Set implements pflag.Value.
func (c *checked) Set(text string) error {
	if !strings.Contains(text, c.part) {
		return fmt.Errorf("%q has no %s", text, c.part)
	}
	c.text = text
	return nil
}

// commandOf is a command with these flags.
func commandOf(flags *pflag.FlagSet) Command {
	kinds := map[string]string{"int": "a whole number", "uint64": "a whole number, not negative", "float64": "a number",
		"duration": "a time with its unit", "numbers": "numbers with commas between"}
	return Command{flags, func(flag *pflag.Flag) string { return kinds[flag.Value.Type()] },
		[]string{"jsonl", "none", "tensorboard", "trackio", "wandb-offline"}}
}

// trainWith returns train's flags after reading the arguments and the file, and the notes on it.
func trainWith(t *testing.T, file string, args ...string) (flags *pflag.FlagSet, notes string, err error) {
	t.Helper()
	flags = trainFlags()
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	flags.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	r, err := commandOf(flags).Read("run.yaml", []byte(file), given)
	return flags, strings.Join(r.Notes, "\n"), err
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
		{"new tokens", "add_tokens: [<a>, <b>]", "add-tokens", "[<a>,<b>]"},
		{"new tokens without text", "new_special_tokens: <a>,<b>", "add-special-tokens", "[<a>,<b>]"},
		{"a larger model", "resize_vocab: true", "pad-vocab", "64"},
		{"history", "mask_history: true", "mask-history", "true"},
		{"a system prompt", "default_system: Be kind.", "system", "Be kind."},
		{"thinking", "enable_thinking: false", "template-args", "[enable_thinking=false]"},
		{"variables of the template", "template_args: {a: 1, b: x}", "template-args", "[a=1,b=x]"},
		{"spaces between names", "lora_target: q_proj, v_proj", "lora-target", "[q_proj,v_proj]"},
		{"spaces between tokens", `new_special_tokens: "<a>, <b>"`, "add-special-tokens", "[<a>,<b>]"},
		{"a token that begins with one, in a list", `add_tokens: [" a", b]`, "add-tokens", `[" a",b]`},
		{"data sets in one list", "mix_strategy: concat\ndataset: a,b", "data", `["a,b"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flags, notes, err := trainWith(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("--%s is %q, want %q", tt.flag, got, tt.want)
			}
			if notes != "" {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}

func TestMethodOnTheCommandLineWins(t *testing.T) {
	for _, tt := range []struct{ file, arg string }{{"finetuning_type: lora", "--lora-rank=0"},
		{"finetuning_type: full", "--lora-rank=4"}} {
		flags, _, err := trainWith(t, tt.file, tt.arg)
		if err != nil {
			t.Fatal(err)
		}
		if got := "--lora-rank=" + flags.Lookup("lora-rank").Value.String(); got != tt.arg {
			t.Errorf("%s with %s: %s", tt.file, tt.arg, got)
		}
	}
}

func TestConfigFileErrorsNameLineKeyAndRemedy(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown key", "\nlearning_rte: 1", "run.yaml:2: learning_rte: unknown key; did you mean learning_rate?"},
		{"not a number", "lr: fast", `run.yaml:1: lr: "fast" does not fit; it must be a number`},
		{"a time without a unit", "max_time: 90", `max_time: "90" does not fit; it must be a time with its unit`},
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
		{"a probability that is none", "mix: interleave_under\nmix_probs: a",
			`mix_probs: "a" does not fit; it must be numbers with commas between`},
		{"a parameter that is none", "schedule_args: x", `run.yaml:1: schedule_args: "x" has no =`},
		{"a share of all steps", "eval_steps: 0.2",
			"eval_steps: 0.2 is a share of all steps: say how many steps, or with eval_epochs how many epochs"},
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

// TestConfigPageNamesEveryKey: docs/config.md lists what of LLaMA-Factory's is known.
func TestConfigPageNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range Theirs() {
		if !bytes.Contains(page, []byte("`"+key+"`")) {
			t.Errorf("docs/config.md does not name %s", key)
		}
	}
}

// TestRemediesAreOfFixedKeys: no other's is ever said.
func TestRemediesAreOfFixedKeys(t *testing.T) {
	for key := range remedies {
		if _, ok := fixed[key]; !ok {
			t.Errorf("the remedy for %s is never said", key)
		}
	}
}

func TestWhatIsWrittenIsReadAsItWas(t *testing.T) {
	write := func(flags *pflag.FlagSet) string {
		first, rest := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Name == "model" {
				first.AddFlag(f)
			} else {
				rest.AddFlag(f)
			}
		})
		var text strings.Builder
		if err := Write(&text, []Group{{"The model", first}, {"The rest", rest}}); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	flags := trainFlags()
	if err := flags.Parse([]string{"--lr", "3e-5", "--model", "1e5", "--strict", "--force", "--data", "a.json,b@2",
		"--data", "c, d", "--schedule-args", "=", "--mix-probs", ".5,.5", "--eval-size", "1"}); err != nil {
		t.Fatal(err)
	}
	text := write(flags)
	again, _, err := trainWith(t, text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if text != write(again) || !strings.HasPrefix(text, "# The model\nmodel: \"1e5\"\n# The rest\n") {
		t.Errorf("printed\n%s\nread and printed\n%s", text, write(again))
	}
	for _, name := range []string{"force", "config", "print_config", "resume"} {
		if strings.Contains(text, "\n"+name+":") {
			t.Errorf("%s is written", name)
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{"lr: 1", "a: &x [1, *x]", "a: *a", "{", "? [a]\n: b", "lr: !!binary x", "<<: {lr: 1}",
		"- \n- "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := commandOf(trainFlags()).Read("run.yaml", []byte(text), nil)
		if err != nil && !strings.HasPrefix(err.Error(), "run.yaml") {
			t.Errorf("error %q does not name the file", err)
		}
	})
}
