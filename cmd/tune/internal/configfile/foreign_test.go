package configfile

import (
	"strings"
	"testing"
)

// Keys of other programs are not taken for the nearest of ours, which means something else.
func TestForeignKeysAreTold(t *testing.T) {
	for key, want := range map[string]string{
		"temperature": "run.yaml:1: temperature: a model writes with tune generate: leave it out here", // not template
		"use_galore":  "run.yaml:1: use_galore: the optimizers are those of optim",                     // not use_rslora
		"use_lora":    "adapters are turned on by finetuning_type: lora, or by lora_rank",
		"ref_model":   "run.yaml:1: ref_model: the reference is the model that the run starts from",
		"batch_size":  "the rows of a batch are per_device_train_batch_size, or batch",
		"optimizer":   "run.yaml:1: optimizer: the optimizers are those of optim",
	} {
		if _, _, err := trainWith(t, key+": 1"); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s: error %v, want %q", key, err, want)
		}
	}
	for _, key := range []string{"eval_delay", "past_index", "tool_format", "eval_num_beams", "log_leveled"} {
		if _, _, err := trainWith(t, key+": 1"); err == nil || !strings.HasSuffix(err.Error(), key+": unknown key") {
			t.Errorf("%s: error %v, want no guess", key, err)
		}
	}
}

// TestForeignKeysAreForeign: each is said once, and none is a key of ours, which comes first.
func TestForeignKeysAreForeign(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range foreign {
		for _, key := range f.keys {
			if seen[key] {
				t.Errorf("%s is there twice", key)
			}
			seen[key] = true
			if _, _, err := trainWith(t, key+": 1"); err == nil || !strings.Contains(err.Error(), f.sentence) {
				t.Errorf("%s is known, and its sentence is never said", key)
			}
		}
	}
}

// A file that names a template which LLaMA-Factory writes otherwise is told so, in one line.
func TestATemplateThatDiffersIsTold(t *testing.T) {
	for name, want := range map[string]bool{"vicuna": true, "llama2": true, "llama3": true, "chatml": false} {
		_, notes, err := trainWith(t, "template: "+name)
		if err != nil || strings.Contains(notes, "which LLaMA-Factory") != want || strings.Contains(notes, "\n") {
			t.Errorf("%s: notes %q, error %v", name, notes, err)
		}
	}
	if _, notes, err := trainWith(t, "batch: 2", "--template", "vicuna"); err != nil || notes != "" {
		t.Errorf("notes %q, error %v", notes, err)
	}
}
