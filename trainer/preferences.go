package trainer

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
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

// forks says where two answers may have their prompt once in a row. Then all that is computed of a prompt must depend on
// nothing but its own tokens.
func (c Config) forks() corpus.Forks {
	dropout := c.LoRA.Dropout
	if c.LoRA.Adapter != "" {
		saved, err := lora.ReadConfig(c.LoRA.Adapter)
		if err != nil {
			return corpus.Forks{Why: err.Error()}
		}
		dropout = saved.Dropout
	}
	config, err := models.ReadConfig(c.Model)
	if err != nil {
		return corpus.Forks{Why: err.Error()}
	}
	d, err := models.Describe(config)
	switch {
	case err != nil:
		return corpus.Forks{Why: err.Error()}
	case dropout > 0:
		return corpus.Forks{Why: "dropout takes away other elements of each"}
	case c.Objective.Noise > 0:
		return corpus.Forks{Why: "nn.Objective.Noise is other noise for each"}
	case d.Balance > 0 || c.Objective.Balance > 0 || c.Objective.RouterZ > 0:
		return corpus.Forks{Why: "the loss of the model's routers counts the tokens of both"}
	}
	if window := d.Narrowest(); window > 0 {
		return corpus.Forks{Longest: window, Why: fmt.Sprintf("they are longer than the %d tokens that some layers see", window)}
	}
	return corpus.Forks{Longest: math.MaxInt}
}

// CheckLength refuses rows of more tokens than the model has positions for.
func (c Config) CheckLength(m *models.Model) error {
	return m.Config.CheckLength("trainer.Config.Seq", c.Seq, c.RowOf(1))
}

// RowOf returns the longest row for a model of so many positions: of two answers that share one, each has half.
func (c Config) RowOf(positions int) int {
	if c.Preference.Enabled() {
		return 2 * positions
	}
	return positions
}

// validatePreference reports fields that do not go with a stage of preferences.
func (c Config) validatePreference() error {
	var errs []error
	if !c.Preference.Enabled() && c.Data.RepeatPrompt {
		errs = append(errs, errors.New("corpus.Config.RepeatPrompt is given, but only a preference.Config.Stage of preferences "+
			"has two answers to a prompt: leave it out"))
	}
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
