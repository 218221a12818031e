package configfile

import (
	"strings"
	"testing"
)

func TestTheirDefaultsAndWhatChangesThem(t *testing.T) {
	const head = "model_name_or_path: m\ndataset: d\n"
	for _, tt := range []struct{ name, file, flag, want string }{
		{"a file of ours has our defaults", "model: m\ndata: d", "batch", "4"},
		{"and packs", "model: m\ndata: d", "no-packing", "false"},
		{"rows of a batch", head, "batch", "8"},
		{"epochs", head, "epochs", "3"},
		{"rate", head, "lr", "5e-05"},
		{"schedule", head, "schedule", "linear"},
		{"decay", head, "weight-decay", "0"},
		{"clipping", head, "clip", "1"},
		{"seed", head, "seed", "42"},
		{"rows are not packed", head, "no-packing", "true"},
		{"unless told", head + "packing: true", "no-packing", "false"},
		{"or neatly", head + "neat_packing: true", "no-packing", "false"},
		{"nor sorted then", head + "packing: true\ngroup_by_length: true", "group-by-length", "false"},
		{"as they are otherwise", head + "group_by_length: true", "group-by-length", "true"},
		{"and then go on in the next row", head + "packing: true", "cut-long", "false"},
		{"nothing is held out", head, "eval-size", "0"},
		{"nor evaluated", head + "val_size: 0.1", "no-eval", "true"},
		{"unless told how often", head + "val_size: 0.1\neval_strategy: steps\neval_steps: 7", "eval-every", "7"},
		{"or as often as there are logs", head + "val_size: 0.1\neval_strategy: steps\nlogging_steps: 9", "eval-every", "9"},
		{"no evaluations", head + "val_size: 0.1\neval_strategy: no", "no-eval", "true"},
		{"no evaluations, quoted", head + "eval_strategy: 'no'", "no-eval", "true"},
		{"evaluated after training", head + "val_size: 0.1\ndo_eval: true", "no-eval", "false"},
		{"and not on the way", head + "val_size: 0.1\ndo_eval: true\neval_strategy: no\neval_steps: 7", "eval-every",
			"2147483647"},
		{"as often as told all the same", head + "val_size: 0.1\ndo_eval: true\neval_strategy: steps\neval_steps: 7",
			"eval-every", "7"},
		{"unless no_eval says not to", head + "val_size: 0.1\ndo_eval: true\nno_eval: true", "no-eval", "true"},
		{"with nothing to evaluate on", head + "do_eval: true", "no-eval", "true"},
		{"a key without effect keeps our defaults", "model: m\ndata: d\nlogging_steps: 10", "batch", "4"},
		{"events", head + "report_to: tensorboard", "report-to", "[tensorboard]"},
		{"events among others, in a folder", head + "report_to: [wandb, tensorboard]\nlogging_dir: logs", "tensorboard",
			"logs"},
		{"several", head + "report_to: [wandb, tensorboard, trackio, swanlab]", "report-to",
			"[wandb-offline,tensorboard,trackio]"},
		{"several, with commas", head + "report_to: wandb,tensorboard", "report-to", "[wandb-offline,tensorboard]"},
		{"ours, in a folder", "model: m\nreport_to: wandb-offline=w", "report-to", "[wandb-offline=w]"},
		{"ours keeps our defaults", "model: m\nreport_to: jsonl", "batch", "4"},
		{"no events", head + "report_to: none", "report-to", "[]"},
		{"checkpoints", head, "save-every", "500"},
		{"no checkpoints", head + "save_strategy: no\nsave_steps: 5", "save-every", "0"},
		{"adapters", head, "lora-rank", "8"},
		{"no adapters", head + "finetuning_type: full", "lora-rank", "0"},
		{"parameters of a schedule", head + "lr_scheduler_type: polynomial\nlr_scheduler_kwargs: {power: 2, lr_end: 1e-8}",
			"schedule-args", "power=2,lr_end=1e-8"},
		{"as a text", head + `lr_scheduler_kwargs: '{"num_cycles": 2}'`, "schedule-args", "num_cycles=2"},
		{"a method that asks for nothing", head + "use_galore: false\nadditional_target: null", "batch", "8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags, notes, err := trainWith(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("--%s is %q, want %q; notes: %s", tt.flag, got, tt.want, notes)
			}
		})
	}
	flags, _, err := trainWith(t, head, "--batch", "2", "--lora-rank", "0")
	if err != nil || flags.Lookup("batch").Value.String() != "2" ||
		flags.Lookup("lora-rank").Value.String() != "0" || flags.Changed("seq") {
		t.Errorf("the command line does not win, or a default counts as given: %v", err)
	}
	flags, notes, err := trainWith(t, head+"val_size: 0.1\ndo_eval: true\neval_strategy: no")
	if err != nil || flags.Lookup("no-eval").Value.String() != "false" {
		t.Errorf("do_eval is overruled by eval_strategy: %v", err)
	}
	has(t, notes, "do_eval: the model is evaluated before the first step, too")
	flags, _, err = trainWith(t, head+"val_size: 0.1\ndo_eval: true", "--no-eval")
	if err != nil || flags.Lookup("no-eval").Value.String() != "true" {
		t.Errorf("do_eval wins over the command line: %v", err)
	}
	_, notes, err = trainWith(t, head+"report_to: [wandb, swanlab]\npacking: true\neval_strategy: steps\n"+
		"group_by_length: true")
	if err != nil {
		t.Fatal(err)
	}
	has(t, notes, "report_to wandb: the run is written offline",
		"report_to swanlab: the run is told in its output folder",
		"packing: examples that share a row never see each other",
		"group_by_length: packed rows are full",
		"eval_strategy: there is nothing to evaluate on")
}

func has(t *testing.T, notes string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(notes, line) {
			t.Errorf("the notes lack %q:\n%s", line, notes)
		}
	}
}
