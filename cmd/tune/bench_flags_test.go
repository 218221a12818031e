package main

import (
	"testing"

	"github.com/spf13/pflag"
)

const (
	ofTheData     = "bench has no data: its rows are of random tokens, each one text, all of it learned"
	ofTheRun      = "it is about what a run reads, writes, shows or repeats, and not about a step"
	ofTheRanks    = "bench measures one process"
	ofTheLoss     = "bench measures the plain loss"
	ofThePart     = "bench trains all weights, or adapters alone"
	ofTheSchedule = "it is a factor of the update, which takes as long with any"
	ofPreference  = "bench's rows are answers to follow; a loss of preferences takes the head's forward pass twice, " +
		"and no more"
)

// notOfAStep are the flags of train that bench does not take, with the reason.
var notOfAStep = map[string]string{
	"config":       "it gives flags from a file; that of bench is a config.json",
	"print-config": ofTheRun,

	"data": ofTheData, "eval-data": ofTheData, "eval-size": ofTheData, "data-format": ofTheData, "template": ofTheData,
	"dataset-dir": ofTheData,
	"max-samples": ofTheData, "skip-bad-rows": ofTheData, "train-on-prompt": ofTheData, "no-packing": ofTheData,
	"cut-long": ofTheData, "system": ofTheData, "template-args": ofTheData, "mask-history": ofTheData, "mix": ofTheData,
	"group-by-length": ofTheData, "repeat-prompt": ofTheData,
	"mix-probs": ofTheData,

	"out": ofTheRun, "epochs": ofTheRun, "save-every": ofTheRun, "keep": ofTheRun, "eval-every": ofTheRun,
	"no-eval": ofTheRun, "load-best-at-end": ofTheRun,
	"save-epochs": ofTheRun, "eval-epochs": ofTheRun, "early-stopping": ofTheRun, "early-stopping-threshold": ofTheRun,
	"metric": ofTheRun, "best-metric": ofTheRun, "max-new-tokens": ofTheRun,
	"resume": ofTheRun, "force": ofTheRun, "tensorboard": ofTheRun, "report-to": ofTheRun,
	"serve": ofTheRun, "serve-token": ofTheRun,
	"log": ofTheRun, "max-time": ofTheRun, "find-lr": ofTheRun,
	"steps": "that of bench says how many steps are measured",

	"lr": ofTheSchedule, "schedule": ofTheSchedule, "schedule-args": ofTheSchedule, "warmup": ofTheSchedule,
	"warmup-ratio": ofTheSchedule,
	"adam-beta1":   ofTheSchedule, "adam-beta2": ofTheSchedule, "adam-epsilon": ofTheSchedule, "decay-all": ofTheSchedule,
	"muon-match-rms":    ofTheSchedule,
	"loraplus-lr-ratio": ofTheSchedule,

	"distributed": ofTheRanks, "reduce-dtype": ofTheRanks, "reduce-behind": ofTheRanks, "sync-check": ofTheRanks,
	"shard-optimizer": ofTheRanks, "rank-timeout": ofTheRanks,
	"stage": ofPreference, "pref-loss": ofPreference, "pref-beta": ofPreference, "simpo-gamma": ofPreference,
	"dpo-label-smoothing": ofPreference,
	"pref-ftx":            ofPreference, "kto-chosen-weight": ofPreference, "kto-rejected-weight": ofPreference,
	"ref-cache": ofPreference,

	"neftune-noise-alpha": ofTheLoss, "label-smoothing": ofTheLoss, "router-aux-loss": ofTheLoss,
	"router-z-loss": ofTheLoss,

	"add-tokens": ofThePart, "add-special-tokens": ofThePart, "add-template-tokens": ofThePart, "pad-vocab": ofThePart,
	"train-modules": ofThePart, "train-layers": ofThePart, "freeze": ofThePart,

	"kernels-verbose":        ofTheRun,
	"gradient-checkpointing": "that of bench has no auto: no limit chooses the layers",
	"memory":                 "bench measures the step that is asked for, and changes nothing of it",
	"kernels":                "that of bench names several selections, its variants",
	"check-every":            "a check is of one step among many; bench measures the others",
	"strict":                 "bench counts what the plain implementation did in place of a plugin, and warns of it",
}

// TestBenchTakesEveryFlagOfAStep: a flag that is added to train is either defined for both
// commands in one place, or has a reason above.
func TestBenchTakesEveryFlagOfAStep(t *testing.T) {
	a := &app{}
	train, bench := a.trainCommand().Flags, a.benchCommand().Flags
	shared := func(f *pflag.Flag) bool {
		b := bench.Lookup(f.Name)
		return b != nil && b.Usage == f.Usage && b.DefValue == f.DefValue && b.Value.Type() == f.Value.Type()
	}
	train.VisitAll(func(f *pflag.Flag) {
		switch reason := notOfAStep[f.Name]; {
		case shared(f) && reason != "":
			t.Errorf("bench takes --%s, which is said to be not of a step: %s", f.Name, reason)
		case !shared(f) && reason == "":
			t.Errorf("bench does not take --%s as train does: define it once for both, or give the reason in notOfAStep",
				f.Name)
		}
	})
	for name := range notOfAStep {
		if train.Lookup(name) == nil {
			t.Errorf("--%s is not a flag of train", name)
		}
	}
}
