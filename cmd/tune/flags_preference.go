package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/preference"
)

// preferenceFlags are those of addPreference that without a stage of preferences say nothing; --ref-cache is refused
// then, in a file, too.
var preferenceFlags = []string{"pref-loss", "pref-beta", "simpo-gamma", "dpo-label-smoothing", "pref-ftx",
	"kto-chosen-weight", "kto-rejected-weight"}

// addStage adds the flag that says what is learned from.
func addStage(f *pflag.FlagSet, c *preference.Config) {
	f.StringVar(&c.Stage, "stage", c.Stage, "what is learned: the `STAGE` sft or pt for texts and answers to follow, "+
		"dpo, orpo or simpo for pairs of a chosen and a rejected answer, kto for answers marked as good or bad")
}

// addPreference adds the flags of training on preferences.
func addPreference(f *pflag.FlagSet, c *preference.Config) {
	addStage(f, c)
	f.StringVar(&c.Loss, "pref-loss", c.Loss, "`LOSS` of the stage dpo: "+strings.Join(preference.Losses(), ", ")+
		"; orpo and simpo are the stages of that name")
	f.Float64Var(&c.Beta, "pref-beta", c.Beta, "how closely the reference is followed, `BETA`; of orpo, the weight "+
		"of its odds")
	f.Float64Var(&c.Gamma, "simpo-gamma", c.Gamma, "`MARGIN` of the rewards that simpo asks for")
	f.Float64Var(&c.Smoothing, "dpo-label-smoothing", c.Smoothing, "`SHARE` of the pairs that are taken to be the "+
		"wrong way round, of the losses sigmoid and simpo")
	f.Float64Var(&c.FTX, "pref-ftx", c.FTX, "`WEIGHT` of the loss of following the chosen answers, which is added")
	f.Float64Var(&c.ChosenWeight, "kto-chosen-weight", c.ChosenWeight, "`WEIGHT` of kto's good answers")
	f.Float64Var(&c.RejectedWeight, "kto-rejected-weight", c.RejectedWeight, "`WEIGHT` of kto's bad answers")
	f.StringVar(&c.RefCache, "ref-cache", c.RefCache, "the `FILE` that keeps the reference's log-probabilities, to "+
		"be read instead of computed by the next run with the same model and data")
}
