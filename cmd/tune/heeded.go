package main

import "github.com/seed98097648/tune/trainer/preference"

// heeded refuses flags of the command line that nothing heeds. In a file, or a checkpoint, they may stand beside what
// turns them off.
func (t *trainFlags) heeded(c *Command) error {
	if t.resume != nil {
		return nil
	}
	config, saves, kind := t.config, t.config.Checkpoints, t.config.Optimizer.Kind
	size := config.Data.EvalSize
	for _, f := range []struct {
		names  []string
		heeded bool
		needed string
	}{
		{preferenceFlags, config.Preference.Enabled(), "a --stage of preferences, such as dpo"},
		{[]string{"simpo-gamma"}, config.Preference.Method() == preference.SimPO, "--stage simpo: no other loss has one"},
		{[]string{"kto-chosen-weight", "kto-rejected-weight"}, config.Preference.Marked(),
			"--stage kto: no other loss has one"},
		{[]string{"mask-history"}, !config.Preference.Enabled(), "a --stage that learns from conversations, such as sft"},
		{[]string{"adam-beta1", "adam-beta2"}, kind.HasBetas(), "an --optim that has betas, such as adamw"},
		{[]string{"adam-epsilon"}, kind.HasEps(), "an --optim that has an epsilon, such as adamw"},
		{[]string{"keep"}, saves.SaveEvery > 0 || saves.SaveEpochs > 0,
			"--save-every or --save-epochs: no checkpoint is saved"},
		{[]string{"eval-every", "eval-epochs"}, !saves.NoEval, "evaluations, which --no-eval leaves out"},
		{[]string{"eval-every", "eval-epochs"}, size == nil || *size > 0 || len(config.Data.Eval) > 0,
			"evaluations, which --eval-size 0 leaves out"},
		{[]string{"early-stopping-threshold"}, saves.Patience > 0, "--early-stopping: no evaluation ends the run"},
		{[]string{"max-new-tokens"}, config.Metric.Name != "", "--metric: no answers are written"},
		{[]string{"pad-vocab"}, config.Words.Any(), "--add-tokens or the like: the model does not grow"},
	} {
		for _, name := range f.names {
			if !f.heeded && t.file.given[name] {
				return c.usagef("--%s is given without %s", name, f.needed)
			}
		}
	}
	return nil
}
