package preference

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
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
				a := Answer{Role: data.Chosen, Tokens: 3 + i, LogProb: -5 * rng.Float64(), Reference: -5 * rng.Float64(),
					Slope: 7} // of a batch before
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
				if want := (at(i, h) - at(i, -h)) / (2 * h); !(math.Abs(a.Slope-want) <= 1e-8) {
					t.Errorf("answer %d: slope %g, finite difference %g", i, a.Slope, want)
				}
			}
		})
	}
}

// answersOf returns answers of four tokens with these log-probabilities, of which the reference's are 1 less.
func answersOf(roles []data.Role, logProbs ...float64) (all []Answer) {
	for i, p := range logProbs {
		all = append(all, Answer{Role: roles[i], Tokens: 4, LogProb: p, Reference: p - 1})
	}
	return all
}

// TestFTXAddsTheMeanLossOfChosenAnswers: over the examples, of which marked answers that are bad are some.
func TestFTXAddsTheMeanLossOfChosenAnswers(t *testing.T) {
	for stage, roles := range map[string][]data.Role{
		DPO: {data.Chosen, data.Rejected, data.Chosen, data.Rejected},
		KTO: {data.Chosen, data.Mismatched, data.Chosen, data.Mismatched, data.Rejected, data.Mismatched},
	} {
		answers := answersOf(roles, []float64{-4, -8, -12, -16, -20, -24}[:len(roles)]...)
		c := Config{Stage: stage, Beta: 0.1, ChosenWeight: 1, RejectedWeight: 1}
		var of Total
		c.Count(&of, answers)
		without := c.Add(answers, of, &Sums{})
		c.FTX = 0.5
		got := c.Add(answers, of, &Sums{}) - without
		if want := 0.5 * (1 + 3) / float64(len(roles)/2); !(math.Abs(got-want) <= 1e-15) {
			t.Errorf("%s: the loss grows by %g, want %g", stage, got, want)
		}
	}
}

func TestMetricsOfPairsAndOfMarkedAnswers(t *testing.T) {
	pair := []data.Role{data.Chosen, data.Rejected}
	marked := append(answersOf([]data.Role{data.Chosen}, -4), Answer{Role: data.Mismatched, Tokens: 4},
		Answer{Role: data.Chosen, Tokens: 4, LogProb: -8, Reference: -5}, Answer{Role: data.Mismatched, Tokens: 4},
		Answer{Role: data.Rejected, Tokens: 4, LogProb: -12, Reference: -8}, Answer{Role: data.Mismatched, Tokens: 4})
	for _, test := range []struct {
		stage   string
		answers []Answer
		want    map[string]float64
	}{
		{DPO, append(answersOf(pair, -4, -8), Answer{Role: data.Chosen, Tokens: 4, LogProb: -9, Reference: -8},
			Answer{Role: data.Rejected, Tokens: 4, LogProb: -6, Reference: -6}),
			map[string]float64{"rewards/chosen": 0, "rewards/rejected": 0.25, "rewards/margins": -0.25,
				"rewards/accuracies": 0, "logps/chosen": -6.5, "logps/rejected": -7}},
		{SimPO, answersOf(pair, -4, -8),
			map[string]float64{"rewards/chosen": -0.5, "rewards/rejected": -1, "rewards/margins": 0.5,
				"rewards/accuracies": 1, "logps/chosen": -1, "logps/rejected": -2}},
		{KTO, marked, map[string]float64{"rewards/chosen": -0.5, "rewards/rejected": -2, "rewards/margins": 1.5,
			"rewards/accuracies": 2. / 3, "logps/chosen": -6, "logps/rejected": -12, "kl": 0}},
		{KTO, marked[:1], // no margin, and nothing mismatched
			map[string]float64{"rewards/chosen": 0.5, "rewards/accuracies": 1, "logps/chosen": -4, "kl": 0}},
		{KTO, append(answersOf([]data.Role{data.Mismatched}, -4), marked[0]),
			map[string]float64{"rewards/chosen": 0.5, "rewards/accuracies": 1, "logps/chosen": -4, "kl": 1}},
		{KTO, answersOf([]data.Role{data.Rejected}, -4), // a step without good ones
			map[string]float64{"rewards/rejected": 0.5, "rewards/accuracies": 0, "logps/rejected": -4, "kl": 0}},
		// As the reference: no sign is right.
		{KTO, []Answer{{Role: data.Chosen, Tokens: 1}, {Role: data.Rejected, Tokens: 1}},
			map[string]float64{"rewards/chosen": 0, "rewards/rejected": 0, "rewards/margins": 0, "rewards/accuracies": 0,
				"logps/chosen": 0, "logps/rejected": 0, "kl": 0}},
	} {
		c, sums := Config{Stage: test.stage, Beta: 0.5, ChosenWeight: 1, RejectedWeight: 1}, Sums{}
		c.Add(slices.Clone(test.answers), Total{3, 8}, &sums)
		if got := sums.Metrics().Named(); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.stage, got, test.want)
		}
	}
	if m := new(Sums).Metrics(); m != nil || m.Named() != nil {
		t.Errorf("of nothing: %+v", m)
	}
}

// TestWhatIsNotThereIsNotTold: a step of KTO may have no bad answers, and a mean that is 0 is one.
func TestWhatIsNotThereIsNotTold(t *testing.T) {
	good := []Answer{{Role: data.Chosen, Tokens: 2, LogProb: -1, Reference: -2},
		{Role: data.Mismatched, Tokens: 2, LogProb: -3}}
	pair := []Answer{{Role: data.Chosen, Tokens: 2, LogProb: -1}, {Role: data.Rejected, Tokens: 2, LogProb: -1}}
	for stage, test := range map[string]struct {
		answers []Answer
		want    map[string]float64
	}{
		KTO: {good, map[string]float64{"rewards/chosen": 0.5, "logps/chosen": -1, "rewards/accuracies": 1, "kl": 0}},
		DPO: {pair, map[string]float64{"rewards/chosen": -0.5, "rewards/rejected": -0.5, "rewards/margins": 0,
			"rewards/accuracies": 0, "logps/chosen": -1, "logps/rejected": -1}},
		ORPO: {pair, map[string]float64{"rewards/chosen": -0.25, "rewards/rejected": -0.25, "rewards/margins": 0,
			"rewards/accuracies": 0, "logps/chosen": -0.5, "logps/rejected": -0.5, "nll_loss": 0.5, "log_odds_chosen": 0,
			"log_odds_ratio": -math.Ln2}},
	} {
		c := Config{Stage: stage, Beta: 0.5, ChosenWeight: 1, RejectedWeight: 1}
		var of Total
		c.Count(&of, test.answers)
		var sums Sums
		c.Add(test.answers, of, &sums)
		text, err := json.Marshal(sums.Metrics())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		if err := json.Unmarshal(text, &got); err != nil || !maps.Equal(got, test.want) ||
			!maps.Equal(sums.Metrics().Named(), test.want) {
			t.Errorf("%s: %s, %v, want %v", stage, text, err, test.want)
		}
	}
}

func TestAnAnswerThatIsCertainHasALossAndASlope(t *testing.T) {
	c := Config{Stage: ORPO, Beta: 0.1}
	for _, logProbs := range [][2]float64{{0, -3000}, {0, 0}, {-3000, 0}} {
		answers := []Answer{{Role: data.Chosen, Tokens: 2, LogProb: logProbs[0]},
			{Role: data.Rejected, Tokens: 2, LogProb: logProbs[1]}}
		loss := c.Add(answers, Total{1, 2}, &Sums{})
		for i, v := range []float64{loss, answers[0].Slope, answers[1].Slope} {
			if !(math.Abs(v) <= math.MaxFloat64) {
				t.Errorf("log-probabilities %v: of loss and slopes, number %d is %g", logProbs, i, v)
			}
		}
	}
}

// TestTheLogarithmOfTheOtherProbabilityHasAllDigits, where an answer is nearly certain and where nearly impossible.
func TestTheLogarithmOfTheOtherProbabilityHasAllDigits(t *testing.T) {
	for x, want := range map[float64]float64{-1e-12: math.Log(1e-12) - 5e-13, -50: -math.Exp(-50)} {
		if got := log1mExp(x); !(math.Abs(got/want-1) <= 1e-15) {
			t.Errorf("log(1-exp(%g)) is %.17g, want %.17g", x, got, want)
		}
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
		"only sigmoid and simpo take it, n": func(c *Config) { c.Stage, c.Smoothing = KTO, 0.1 },
		"Smoothing is -0.1":                 func(c *Config) { c.Smoothing = -0.1 },
		"Beta is +Inf":                      func(c *Config) { c.Beta = math.Inf(1) },
		"FTX is +Inf":                       func(c *Config) { c.FTX = math.Inf(1) },
		"orpo compares with no reference":   func(c *Config) { c.Stage, c.RefCache = ORPO, "f" },
		"stage compares with no reference":  func(c *Config) { c.Stage, c.RefCache = SFT, "f" },
		"ChosenWeight is -1":                func(c *Config) { c.ChosenWeight = -1 },
		"RejectedWeight is NaN":             func(c *Config) { c.Stage, c.RejectedWeight = KTO, math.NaN() },
	} {
		c := Default()
		c.Stage = DPO
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	for stage, c := range map[string]Config{SimPO: {Smoothing: 0.1}, KTO: {Loss: Sigmoid, RefCache: "f"},
		ORPO: {Loss: ORPO}, DPO: {Loss: IPO, RefCache: "f"}, PT: {}} {
		c.Stage = stage
		if c.Enabled() != (stage != PT) {
			t.Errorf("%s: preferences are enabled: %v", stage, c.Enabled())
		}
		if err := c.WithDefaults().Validate(); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
	}
	if err := (Config{Stage: ORPO, Beta: 0.1}).Validate(); err != nil { // without defaults
		t.Error(err)
	}
	got := (Config{}).WithDefaults()
	if got != Default() || got.Enabled() || got.ChosenWeight != 1 || got.RejectedWeight != 1 {
		t.Errorf("the defaults of nothing are %+v", got)
	}
}

// TestSumsOfPartsAreThoseOfTheWhole, by the numbers that ranks tell each other: none is left out.
func TestSumsOfPartsAreThoseOfTheWhole(t *testing.T) {
	var s Sums
	if fields := reflect.TypeFor[Sums]().NumField(); len(s.Numbers()) != fields {
		t.Fatalf("%d numbers of %d fields", len(s.Numbers()), fields)
	}
	answers := func(n int) (all []Answer) {
		for i := range 2 * n {
			role := data.Chosen
			if i%2 == 1 {
				role = data.Rejected
			}
			all = append(all, Answer{Role: role, Tokens: 4, LogProb: -float64(2 + i)})
		}
		return all
	}
	c := Config{Stage: ORPO, Beta: 0.5}
	var of Total
	c.Count(&of, answers(3))
	var whole, part, other Sums
	c.Add(answers(3), of, &whole)
	c.Add(answers(3)[:4], of, &part)
	c.Add(answers(3)[4:], of, &other)
	part.Plus(other.Numbers())
	if got, want := part.Metrics().Named(), whole.Metrics().Named(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.Stage = KTO
	var none Sums
	if loss := c.Add(nil, of, &none); loss != 0 || none != (Sums{}) {
		t.Errorf("what pads a batch has the loss %g and counts as %+v", loss, none)
	}
}
