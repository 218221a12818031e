package preference

import "github.com/seed98097648/tune/trainer/data"

// Metrics are what trl logs, by its names: means over the examples of a step or of an evaluation.
// A reward is beta times what an answer's log-probability has gained on the reference; without a
// reference it is beta times the mean log-probability of its tokens. What a stage does not have is nil, and so is what
// is of good answers, or of bad ones, in a step of KTO without any.
type Metrics struct {
	Chosen   *float64 `json:"rewards/chosen,omitempty"`
	Rejected *float64 `json:"rewards/rejected,omitempty"`
	Margin   *float64 `json:"rewards/margins,omitempty"`
	// Accuracy is the share of pairs whose chosen answer has the higher reward; trl has none for KTO, where
	// here it is the share of answers whose reward has the right sign.
	Accuracy        float64  `json:"rewards/accuracies"`
	ChosenLogProb   *float64 `json:"logps/chosen,omitempty"`
	RejectedLogProb *float64 `json:"logps/rejected,omitempty"`

	NLL       *float64 `json:"nll_loss,omitempty"`        // of ORPO: the loss of following the chosen answers
	OddsRatio *float64 `json:"log_odds_ratio,omitempty"`  // of ORPO, with trl's sign
	Odds      *float64 `json:"log_odds_chosen,omitempty"` // of ORPO
	KL        *float64 `json:"kl,omitempty"`              // of KTO
}

// Named returns the metrics that there are by their names; nil of nil.
func (m *Metrics) Named() map[string]float64 {
	if m == nil {
		return nil
	}
	all := map[string]float64{"rewards/accuracies": m.Accuracy}
	for name, v := range map[string]*float64{"rewards/chosen": m.Chosen, "rewards/rejected": m.Rejected,
		"rewards/margins": m.Margin, "logps/chosen": m.ChosenLogProb, "logps/rejected": m.RejectedLogProb,
		"nll_loss": m.NLL, "log_odds_ratio": m.OddsRatio, "log_odds_chosen": m.Odds, "kl": m.KL} {
		if v != nil {
			all[name] = *v
		}
	}
	return all
}

// Sums add up what Metrics are the means of. The zero value is empty.
type Sums struct {
	chosen, rejected         float64 // rewards
	chosenLog, rejectedLog   float64
	chosens, rejecteds       float64
	right, compared          float64
	nll, oddsRatio, odds, kl float64
	chosenTokens, odd        float64 // of ORPO: tokens and pairs
	batches                  float64 // of KTO
}

// each returns all sums.
func (s *Sums) each() []*float64 {
	return []*float64{&s.chosen, &s.rejected, &s.chosenLog, &s.rejectedLog, &s.chosens, &s.rejecteds, &s.right,
		&s.compared, &s.nll, &s.oddsRatio, &s.odds, &s.kl,
		&s.chosenTokens, &s.odd, &s.batches}
}

// Numbers returns the sums as what ranks tell each other, always as many.
func (s *Sums) Numbers() (all []float64) {
	for _, v := range s.each() {
		all = append(all, *v)
	}
	return all
}

// Plus adds the Numbers of others.
func (s *Sums) Plus(numbers []float64) {
	for i, v := range s.each() {
		*v += numbers[i]
	}
}

// Metrics returns the means, nil of nothing.
func (s *Sums) Metrics() *Metrics {
	if s.compared == 0 {
		return nil
	}
	mean := func(sum, n float64) *float64 {
		if n == 0 {
			return nil
		}
		return new(sum / n)
	}
	m := &Metrics{Chosen: mean(s.chosen, s.chosens), Rejected: mean(s.rejected, s.rejecteds),
		Accuracy:      s.right / s.compared,
		ChosenLogProb: mean(s.chosenLog, s.chosens), RejectedLogProb: mean(s.rejectedLog, s.rejecteds),
		NLL: mean(s.nll, s.chosenTokens), OddsRatio: mean(s.oddsRatio, s.odd), Odds: mean(s.odds, s.odd),
		KL: mean(s.kl, s.batches)}
	if m.Chosen != nil && m.Rejected != nil {
		m.Margin = new(*m.Chosen - *m.Rejected)
	}
	return m
}

// watchPair adds a pair.
func (c Config) watchPair(s *Sums, chosen, rejected Answer) {
	of := func(a Answer) (reward, log float64) {
		if c.NeedsReference() {
			return c.Beta * a.ratio(), a.LogProb
		}
		return c.Beta * a.mean(), a.mean()
	}
	better, betterLog := of(chosen)
	worse, worseLog := of(rejected)
	s.chosen, s.rejected = s.chosen+better, s.rejected+worse
	s.chosenLog, s.rejectedLog = s.chosenLog+betterLog, s.rejectedLog+worseLog
	s.chosens, s.rejecteds, s.compared = s.chosens+1, s.rejecteds+1, s.compared+1
	if better > worse {
		s.right++
	}
	if c.Method() == ORPO {
		odds := logOdds(sure(chosen.mean()), sure(rejected.mean()))
		s.odds, s.oddsRatio, s.odd = s.odds+odds, s.oddsRatio+logSigmoid(odds), s.odd+1
		s.nll, s.chosenTokens = s.nll-chosen.LogProb, s.chosenTokens+float64(chosen.Tokens)
	}
}

// watchMarked adds a marked answer.
func (c Config) watchMarked(s *Sums, a Answer) {
	reward := c.Beta * a.ratio()
	right := reward > 0
	if a.Role == data.Chosen {
		s.chosen, s.chosenLog, s.chosens = s.chosen+reward, s.chosenLog+a.LogProb, s.chosens+1
	} else {
		s.rejected, s.rejectedLog, s.rejecteds = s.rejected+reward, s.rejectedLog+a.LogProb, s.rejecteds+1
		right = reward < 0
	}
	if s.compared++; right {
		s.right++
	}
}
