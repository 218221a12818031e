package preference

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/data"
)

// TestSlopesEqualFiniteDifferences: of every loss, of steps of which this is one batch of two.
func TestSlopesEqualFiniteDifferences(t *testing.T) {
	for _, test := range []struct{ stage, loss string }{{DPO, Sigmoid}, {DPO, Hinge}, {DPO, IPO}, {DPO, ORPO}, {DPO,
		SimPO},
		{ORPO, ""}, {SimPO, ""}, {KTO, ""}} {
		t.Run(test.stage+" "+test.loss, func(t *testing.T) {
			c := Config{Stage: test.stage, Loss: test.loss, Beta: 0.3, Gamma: 0.4, FTX: 0.2, ChosenWeight: 1.2,
				RejectedWeight: 0.7}
			rng := rand.New(rand.NewPCG(1, 2))
			var answers []Answer
			for i := range 8 {
				a := Answer{Role: data.Chosen, Tokens: 3 + i, LogProb: -5 * rng.Float64(), Reference: -5 * rng.Float64()}
				switch {
				case i%2 == 1 && c.Marked():
					a.Role = data.Mismatched
				case i%2 == 1 || i == 2 && c.Marked():
					a.Role = data.Rejected
				}
				answers = append(answers, a)
			}
			var of Total
			c.Count(&of, answers)
			c.Count(&of, answers)
			at := func(i int, d float64) float64 {
				moved := slices.Clone(answers)
				moved[i].LogProb += d
				if moved[i].Role == data.Mismatched { // it has no gradient
					return 0
				}
				return c.Add(moved, of, &Sums{})
			}
			c.Add(answers, of, &Sums{})
			for i, a := range answers {
				const h = 1e-5
				if want := (at(i, h) - at(i, -h)) / (2 * h); math.Abs(a.Slope-want) > 1e-8 {
					t.Errorf("answer %d: slope %g, finite difference %g", i, a.Slope, want)
				}
			}
		})
	}
}

func TestAnAnswerThatIsCertainHasALossAndASlope(t *testing.T) {
	c := Config{Stage: ORPO, Beta: 0.1}
	answers := []Answer{{Role: data.Chosen, Tokens: 2}, {Role: data.Rejected, Tokens: 2, LogProb: -3000}}
	loss := c.Add(answers, Total{1, 2}, &Sums{})
	if math.IsNaN(loss) || math.IsInf(loss, 0) || math.IsInf(answers[0].Slope, 0) || math.IsNaN(answers[1].Slope) {
		t.Errorf("loss %g, slopes %g and %g", loss, answers[0].Slope, answers[1].Slope)
	}
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"Stage is \"ppo\"":                  func(c *Config) { c.Stage = "ppo" },
		"Loss is \"nca\"":                   func(c *Config) { c.Loss = "nca" },
		"Loss is ipo, but the stage is kto": func(c *Config) { c.Stage, c.Loss = KTO, IPO },
		"Beta is 0":                         func(c *Config) { c.Beta = 0 },
		"Gamma is -1":                       func(c *Config) { c.Gamma = -1 },
		"only sigmoid and simpo take it":    func(c *Config) { c.Loss, c.Smoothing = IPO, 0.1 },
		"Smoothing is 0.5":                  func(c *Config) { c.Smoothing = 0.5 },
		"orpo compares with no reference":   func(c *Config) { c.Stage, c.RefCache = ORPO, "f" },
		"stage compares with no reference":  func(c *Config) { c.Stage, c.RefCache = SFT, "f" },
		"RejectedWeight is NaN":             func(c *Config) { c.Stage, c.RejectedWeight = KTO, math.NaN() },
	} {
		c := Default()
		c.Stage = DPO
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
