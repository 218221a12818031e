package trainer

import (
	"errors"

	"github.com/seed98097648/tune/trainer/data/corpus"
)

// kind is that of the examples that the stage trains on.
func (c Config) kind() corpus.Kind {
	switch {
	case !c.Preference.Enabled():
		return corpus.Follow
	case c.Preference.Marked():
		return corpus.Marked
	}
	return corpus.Pairs
}

// Positions returns how many positions a row of so many tokens has at most: of two answers that
// share one, each has half.
func (c Config) Positions(seq int) int {
	if c.Preference.Enabled() {
		return seq / 2
	}
	return seq
}

// RowOf returns the longest row for a model of so many positions.
func (c Config) RowOf(positions int) int {
	if c.Preference.Enabled() {
		return 2 * positions
	}
	return positions
}

// validatePreference reports fields that do not go with a stage of preferences.
func (c Config) validatePreference() error {
	var errs []error
	if c.Preference.Enabled() && c.Data.TrainOnPrompt {
		errs = append(errs, errors.New("corpus.Config.TrainOnPrompt is given, but preferences are about answers: leave it out"))
	}
	if c.Preference.Enabled() && c.Data.Format != "" && c.Data.Format != "auto" {
		errs = append(errs, errors.New("corpus.Config.Format is given, but the columns of preferences are told by their names: "+
			"leave it out"))
	}
	if c.Preference.Enabled() && c.Objective.Smoothing > 0 {
		errs = append(errs, errors.New("nn.Objective.Smoothing smooths the labels of answers to follow: leave it out, or smooth "+
			"which answer is better with preference.Config.Smoothing"))
	}
	return errors.Join(errs...)
}
