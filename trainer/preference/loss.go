package preference

import (
	"math"

	"github.com/seed98097648/tune/trainer/data"
)

// Answer is an answer as a loss sees it. Its role is that of a data.Row's part.
type Answer struct {
	Role      data.Role
	Tokens    int     // of the answer, without its prompt
	LogProb   float64 // their sum
	Reference float64 // the same of the reference model; 0 without one
	Slope     float64 // what Config.Add sets: its derivative by LogProb
}

func (a Answer) mean() float64  { return a.LogProb / float64(a.Tokens) }
func (a Answer) ratio() float64 { return a.LogProb - a.Reference }

// Total is what the loss of a whole optimizer step is a mean of.
type Total struct {
	Examples     int // pairs, or marked answers
	ChosenTokens int // of the chosen answers
}

// Count adds answers, of which only Role and Tokens matter.
func (c Config) Count(t *Total, answers []Answer) {
	for _, a := range answers {
		if a.Role == data.Chosen {
			t.ChosenTokens += a.Tokens
		}
		if a.Role == data.Chosen || a.Role == data.Rejected && c.Marked() {
			t.Examples++
		}
	}
}

// Add returns what a batch adds to the loss of a step with so many examples, sets the Slope of each
// answer, and adds what is worth watching to sums. The answers are those of a batch in their order:
// each chosen one is followed by the rejected one, or for KTO each by a mismatched one.
func (c Config) Add(answers []Answer, of Total, sums *Sums) float64 {
	if c.Marked() {
		return c.kto(answers, of, sums)
	}
	loss, n := 0.0, float64(of.Examples)
	for i := 0; i+1 < len(answers); i += 2 {
		chosen, rejected := &answers[i], &answers[i+1]
		l := c.pair(chosen, rejected)
		if c.FTX > 0 {
			l -= c.FTX * chosen.mean()
			chosen.Slope -= c.FTX / float64(chosen.Tokens)
		}
		loss += l / n
		chosen.Slope, rejected.Slope = chosen.Slope/n, rejected.Slope/n
		if c.Method() == ORPO { // the mean over the tokens of all chosen answers
			loss -= chosen.LogProb / float64(of.ChosenTokens)
			chosen.Slope -= 1 / float64(of.ChosenTokens)
		}
		c.watchPair(sums, *chosen, *rejected)
	}
	return loss
}

// pair returns the loss of one pair, and sets the slopes.
func (c Config) pair(chosen, rejected *Answer) (loss float64) {
	nc, nr := float64(chosen.Tokens), float64(rejected.Tokens)
	z, slope := chosen.ratio()-rejected.ratio(), 0.0
	switch c.Method() {
	case Hinge:
		if loss = 1 - c.Beta*z; loss <= 0 {
			loss = 0
		} else {
			slope = -c.Beta
		}
	case IPO:
		x := chosen.ratio()/nc - rejected.ratio()/nr - 1/(2*c.Beta)
		chosen.Slope, rejected.Slope = 2*x/nc, -2*x/nr
		return x * x
	case SimPO:
		loss, slope = c.smoothed(c.Beta*(chosen.mean()-rejected.mean()) - c.Gamma)
		chosen.Slope, rejected.Slope = c.Beta*slope/nc, -c.Beta*slope/nr
		return loss
	case ORPO:
		a, b := sure(chosen.mean()), sure(rejected.mean())
		odds := logOdds(a, b)
		slope = -c.Beta * sigmoid(-odds)
		chosen.Slope, rejected.Slope = slope/-math.Expm1(a)/nc, -slope/-math.Expm1(b)/nr
		return -c.Beta * logSigmoid(odds)
	default:
		loss, slope = c.smoothed(c.Beta * z)
		slope *= c.Beta
	}
	chosen.Slope, rejected.Slope = slope, -slope
	return loss
}

// smoothed is -(1-s) logsigmoid(u) - s logsigmoid(-u), and its derivative.
func (c Config) smoothed(u float64) (loss, slope float64) {
	s := c.Smoothing
	return -(1-s)*logSigmoid(u) - s*logSigmoid(-u), s*sigmoid(u) - (1-s)*sigmoid(-u)
}

// kto adds KTO's loss up. How far the model is from the reference, which has no gradient, is
// estimated from the batch's mismatched answers.
func (c Config) kto(answers []Answer, of Total, sums *Sums) float64 {
	far, n := 0.0, 0.0
	if len(answers) == 0 { // what pads the rows of several ranks
		return 0
	}
	for _, a := range answers {
		if a.Role == data.Mismatched {
			far, n = far+a.ratio(), n+1
		}
	}
	if n > 0 {
		far = max(far/n, 0)
	}
	loss := 0.0
	for i := range answers {
		a, sign, weight := &answers[i], 1.0, c.ChosenWeight
		switch a.Role {
		case data.Mismatched:
			a.Slope = 0
			continue
		case data.Rejected:
			sign, weight = -1, c.RejectedWeight
		}
		s := sigmoid(sign * c.Beta * (a.ratio() - far))
		loss += weight * (1 - s) / float64(of.Examples)
		a.Slope = -weight * sign * c.Beta * s * (1 - s) / float64(of.Examples)
		if c.FTX > 0 && a.Role == data.Chosen {
			loss -= c.FTX * a.mean() / float64(of.Examples)
			a.Slope -= c.FTX / float64(a.Tokens) / float64(of.Examples)
		}
		c.watchMarked(sums, *a)
	}
	sums.kl, sums.batches = sums.kl+far, sums.batches+1
	return loss
}

// sure keeps the mean log-probability of an answer below 0, where the odds have no logarithm: no
// float32 tells a probability nearer to 1 from 1.
func sure(mean float64) float64 { return min(mean, -0x1p-24) }

// logOdds is the logarithm of the ratio of the odds of two answers.
func logOdds(a, b float64) float64 { return a - b - (log1mExp(a) - log1mExp(b)) }

// log1mExp is log(1-exp(x)) for x below 0, with as many digits on either side of -log 2 (Mächler 2012).
func log1mExp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// logSigmoid does not overflow.
func logSigmoid(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }
