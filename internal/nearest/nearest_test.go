package nearest

import (
	"fmt"
	"testing"
)

func TestNameFindsWhatWasLikelyMeant(t *testing.T) {
	keys := []string{"lr", "schedule", "seed", "seq", "steps", "eval_steps", "eval_data", "num_train_epochs",
		"per_device_train_batch_size", "lora_rank", "lora_target",
		"learning_rate", "max_samples", "template", "plot_loss", "pure_bf16", "use_rslora", "val_size", "warmup_ratio",
		"gradient_checkpointing", "optim", "model"}
	for typed, want := range map[string]string{
		"learning_rte": "learning_rate", "laerning_rate": "learning_rate", "Template": "template", "step": "steps",
		"lora_r":      "lora_rank",
		"lr_schedule": "schedule", "batch_size": "per_device_train_batch_size", "num_epochs": "num_train_epochs",
		"m": "model", "eval_setps": "eval_steps",
		"warmup-ratio": "warmup_ratio", "vla_size": "val_size", "modle": "model", "шаг": "",

		// These are names of other things.
		"": "", "temperature": "", "pref_loss": "", "pref_beta": "", "use_lora": "use_rslora", "use_galore": "",
		"min_lr_ratio": "", "gradient_clipping": "",
		"apollo_rank": "", "additional_target": "", "do_sample": "", "max_seq_length": "", "logging_nan_inf_filter": "",
		"eval_delay": "",
	} {
		if got, ok := Name(typed, keys); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}

func TestTheNearestOfSeveralIsTaken(t *testing.T) {
	if got, _ := Name("eval", []string{"eval_dataset", "eval_data", "evil"}); got != "evil" {
		t.Errorf("got %q", got)
	}
	if got, _ := Name("alpaca_en", []string{"alpaca_zh_demo", "alpaca_en_demo"}); got != "alpaca_en_demo" {
		t.Errorf("got %q", got)
	}
	if _, ok := Name("x", nil); ok {
		t.Error("a name out of none")
	}
}

func TestDistanceCountsLetters(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"ab", "abc", 1},
		{"kitten", "sitting", 3}, {"ähm", "ahm", 1}} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestAValueOfNoneIsToldWhatItMayBe(t *testing.T) {
	for value, want := range map[string]string{"cosine": "<nil>", "": `decay is ""; it takes linear, cosine`,
		"cosin": `decay is "cosin"; it takes linear, cosine; did you mean cosine?`} {
		if err := OneOf("decay", value, "linear", "cosine"); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}
