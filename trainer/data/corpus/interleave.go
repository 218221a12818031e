package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/internal/nearest"
)

// Interleaving says how the data sets of a run become one, as interleave_datasets of
// Hugging Face's datasets has it.
type Interleaving struct {
	// Mix is MixConcat, or empty; MixUnder, which draws an example of one data set after
	// another until one has no more; or MixOver, which goes on until each was used up, and
	// begins again with those that were before.
	Mix string `json:"mix,omitempty"`
	// Probs are how likely each data set is drawn from next; none for one after another.
	Probs []float64 `json:"mix_probs,omitempty"`
}

// The values of Interleaving.Mix, which are LLaMA-Factory's.
const (
	MixConcat = "concat"
	MixUnder  = "interleave_under"
	MixOver   = "interleave_over"
)

// Mixes returns them.
func Mixes() []string { return []string{MixConcat, MixUnder, MixOver} }

// on reports whether anything is interleaved.
func (i Interleaving) on() bool { return i.Mix != "" && i.Mix != MixConcat }

// Validate reports the field that makes no sense.
func (i Interleaving) Validate() error {
	if err := nearest.OneOf("corpus.Interleaving.Mix", cmp.Or(i.Mix, MixConcat), Mixes()...); err != nil {
		return err
	}
	if len(i.Probs) > 0 && !i.on() {
		return fmt.Errorf("corpus.Interleaving.Probs are for interleaving: give corpus.Interleaving.Mix %s or %s too",
			MixUnder, MixOver)
	}
	sum := 0.0
	for _, p := range i.Probs {
		if !(p > 0) || math.IsInf(p, 0) {
			return fmt.Errorf("corpus.Interleaving.Probs has %g; each must be above 0", p)
		}
		sum += p
	}
	if len(i.Probs) > 0 && math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("corpus.Interleaving.Probs come to %g, must come to 1", sum)
	}
	return nil
}

// fits checks that there is a probability for each of n data sets.
func (i Interleaving) fits(n int) error {
	if len(i.Probs) > 0 && len(i.Probs) != n {
		return fmt.Errorf("corpus.Interleaving.Probs has %d numbers for %d data sets; give one for each", len(i.Probs), n)
	}
	return nil
}

// examples draws from the data sets, of which each has all that its weight gives it.
func (i Interleaving) examples(sets [][]int, seed uint64) ([]int, error) {
	if slices.ContainsFunc(sets, func(s []int) bool { return len(s) == 0 }) {
		return nil, errors.New("a data set has no example left to interleave: give it more, or corpus.Config.Eval " +
			"instead of holding some out")
	}
	const stream = 1 << 41 // apart from those of samples and epochs
	rng := rand.New(rand.NewPCG(seed, stream))
	var all []int
	next, used := make([]int, len(sets)), make([]bool, len(sets))
	for turn := 0; ; turn++ {
		s := turn % len(sets)
		if len(i.Probs) == 0 && s == 0 && i.over(used) || len(i.Probs) > 0 && i.over(used) {
			return all, nil
		}
		if len(i.Probs) > 0 {
			s = i.draw(rng.Float64())
		}
		all = append(all, sets[s][next[s]])
		if next[s]++; next[s] == len(sets[s]) {
			next[s], used[s] = 0, true
		}
	}
}

// over reports whether it is the end, given which data sets were used up.
func (i Interleaving) over(used []bool) bool {
	if i.Mix == MixOver {
		return !slices.Contains(used, false)
	}
	return slices.Contains(used, true)
}

// draw returns the data set that a number in [0, 1) falls to.
func (i Interleaving) draw(x float64) int {
	for s, p := range i.Probs {
		if x -= p; x < 0 {
			return s
		}
	}
	return len(i.Probs) - 1
}
