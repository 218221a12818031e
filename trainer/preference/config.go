package preference

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/internal/nearest"
)

// The stages of training. SFT and PT are those without preferences.
const (
	SFT   = "sft" // answers to follow
	PT    = "pt"  // texts; here as SFT
	DPO   = "dpo"
	ORPO  = "orpo"
	SimPO = "simpo"
	KTO   = "kto"
)

// Stages lists them, for flags.
func Stages() []string { return []string{SFT, PT, DPO, ORPO, SimPO, KTO} }

// The losses of DPO. ORPO and SimPO are among them in LLaMA-Factory's files, and mean those stages.
const (
	Sigmoid = "sigmoid"
	Hinge   = "hinge"
	IPO     = "ipo"
)

// Losses lists what Config.Loss takes.
func Losses() []string { return []string{Sigmoid, Hinge, IPO, ORPO, SimPO} }

// Config says which loss is trained with.
type Config struct {
	Stage string  `json:"stage"`     // one of Stages; empty for SFT
	Loss  string  `json:"pref_loss"` // one of Losses, of the stage DPO; empty for Sigmoid
	Beta  float64 `json:"pref_beta"` // how closely the reference is followed; of ORPO, the weight of its odds
	Gamma float64 `json:"simpo_gamma"`
	// Smoothing is the share of pairs that are taken to be the wrong way round, with Sigmoid and SimPO.
	Smoothing float64 `json:"dpo_label_smoothing"`
	// FTX is the weight of the loss of following the chosen answers, the mean over the tokens of each.
	FTX            float64 `json:"pref_ftx"`
	ChosenWeight   float64 `json:"kto_chosen_weight"`
	RejectedWeight float64 `json:"kto_rejected_weight"`
	// RefCache is a file that keeps the reference's log-probabilities from one run to the next.
	RefCache string `json:"ref_cache,omitempty"`
}

// Default returns what trl and LLaMA-Factory have, of training without preferences.
func Default() Config {
	return Config{Stage: SFT, Loss: Sigmoid, Beta: 0.1, Gamma: 0.5, ChosenWeight: 1, RejectedWeight: 1}
}

// WithDefaults returns the configuration with Default's value where a field is zero.
func (c Config) WithDefaults() Config {
	d := Default()
	c.Stage, c.Loss, c.Beta, c.Gamma = cmp.Or(c.Stage, d.Stage), cmp.Or(c.Loss, d.Loss), cmp.Or(c.Beta, d.Beta),
		cmp.Or(c.Gamma, d.Gamma)
	c.ChosenWeight, c.RejectedWeight = cmp.Or(c.ChosenWeight, d.ChosenWeight), cmp.Or(c.RejectedWeight, d.RejectedWeight)
	return c
}

// Enabled reports whether training is on preferences.
func (c Config) Enabled() bool { return c.Stage != "" && c.Stage != SFT && c.Stage != PT }

// IsZero reports the opposite of Enabled: then no other field means anything, and none is written.
func (c Config) IsZero() bool { return !c.Enabled() }

// Method returns the loss: one of Losses, or KTO.
func (c Config) Method() string {
	if c.Stage == DPO {
		return cmp.Or(c.Loss, Sigmoid)
	}
	return c.Stage
}

// Marked reports whether each example is one answer that is good or bad, and not a pair.
func (c Config) Marked() bool { return c.Stage == KTO }

// NeedsReference reports whether the loss compares with a model that is not trained.
func (c Config) NeedsReference() bool {
	return c.Enabled() && !slices.Contains([]string{ORPO, SimPO}, c.Method())
}

// Validate reports every field that makes no sense.
func (c Config) Validate() error {
	if err := nearest.OneOf("preference.Config.Stage", cmp.Or(c.Stage, SFT), Stages()...); err != nil {
		return err
	}
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("preference.Config."+format, args...))
		}
	}
	if !c.Enabled() {
		need(c.RefCache == "", "RefCache is given, but the stage compares with no reference: leave it out, or name a "+
			"preference.Config.Stage such as dpo")
		return errors.Join(errs...)
	}
	errs = append(errs, nearest.OneOf("preference.Config.Loss", cmp.Or(c.Loss, Sigmoid), Losses()...))
	need(c.Stage == DPO || c.Loss == "" || c.Loss == Sigmoid || c.Loss == c.Stage, "Loss is %s, but the stage is "+
		"%s, which has its own: leave it out", c.Loss, c.Stage)
	for _, n := range []struct {
		name  string
		value float64
	}{{"Gamma", c.Gamma}, {"FTX", c.FTX}, {"ChosenWeight", c.ChosenWeight}, {"RejectedWeight", c.RejectedWeight}} {
		need(n.value >= 0 && !math.IsInf(n.value, 0), "%s is %g, must not be negative", n.name, n.value)
	}
	need(c.Beta > 0 && !math.IsInf(c.Beta, 0), "Beta is %g, must be positive", c.Beta)
	need(c.Smoothing >= 0 && c.Smoothing < 0.5, "Smoothing is %g, must be at least 0 and below 0.5", c.Smoothing)
	smooth := c.Smoothing == 0 || c.Method() == Sigmoid || c.Method() == SimPO
	need(smooth, "Smoothing is %g, but only sigmoid and simpo take it, not %s", c.Smoothing, c.Method())
	need(c.RefCache == "" || c.NeedsReference(), "RefCache is given, but %s compares with no reference: leave it out",
		c.Method())
	return errors.Join(errs...)
}
