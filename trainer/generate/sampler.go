package generate

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/seed98097648/tune/internal/simd"
)

// Sampling says how the next token is chosen. The steps and their order are those of
// transformers: repetition penalty, temperature, top-k, top-p, min-p. The zero value
// takes the likeliest token.
type Sampling struct {
	Temperature float64 `json:"temperature"`     // divides the logits; 0 takes the likeliest token
	TopK        int     `json:"top_k,omitempty"` // only the k likeliest; 0 for all
	// only the likeliest that together have this probability, at least one; 1 for all
	TopP float64 `json:"top_p"`
	// only those with this share of the likeliest one's probability
	MinP float64 `json:"min_p,omitempty"`
	// divides positive logits of tokens that were there before, multiplies negative ones; 0 or 1 for none
	RepetitionPenalty float64 `json:"repetition_penalty,omitempty"`
	Seed              uint64  `json:"seed"` // the same seed, model and prompt give the same text
}

// PenaltyRange is what a repetition penalty that somebody gives may be: beyond, logits could become infinite. The 0 of
// Sampling is that of nobody.
const PenaltyRange = "must be between 0.01 and 100; 1 is none"

// Validate reports every field that makes no sense.
func (s Sampling) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(s.Temperature >= 0 && !math.IsInf(s.Temperature, 0),
		"generate.Sampling.Temperature is %g, must not be negative; 0 takes the likeliest token", s.Temperature)
	need(s.TopK >= 0, "generate.Sampling.TopK is %d, must not be negative; 0 takes all tokens", s.TopK)
	need(s.TopP >= 0 && s.TopP <= 1, "generate.Sampling.TopP is %g, must be between 0 and 1", s.TopP)
	need(s.MinP >= 0 && s.MinP <= 1, "generate.Sampling.MinP is %g, must be between 0 and 1", s.MinP)
	need(s.RepetitionPenalty == 0 || s.RepetitionPenalty >= 0.01 && s.RepetitionPenalty <= 100,
		"generate.Sampling.RepetitionPenalty is %g, "+PenaltyRange, s.RepetitionPenalty)
	return errors.Join(errs...)
}

// Sampler chooses tokens. It is not safe for concurrent use.
type Sampler struct {
	Sampling
	rng    *rand.Rand
	scores []candidate // room
	seen   map[int32]bool
}

// candidate is a token that may be chosen.
type candidate struct {
	id    int32
	score float64 // the logit after penalty and temperature
	prob  float64
}

// NewSampler starts with the seed.
func NewSampler(s Sampling) *Sampler {
	return &Sampler{Sampling: s, rng: rand.New(rand.NewPCG(s.Seed, 0)), seen: map[int32]bool{}}
}

// Next chooses the token that follows the tokens before, given its logits. Of equally
// likely ones the first counts as the likelier.
func (s *Sampler) Next(logits []float32, before []int32) int32 {
	if s.Temperature == 0 && !s.penalizes() {
		return likeliest(logits)
	}
	all := s.scores[:0]
	for id, l := range logits {
		all = append(all, candidate{id: int32(id), score: float64(l)})
	}
	s.scores = all
	s.penalize(all, before)
	if s.Temperature == 0 {
		return slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.score, b.score) }).id
	}
	// The differences are what counts, and the quotient of the largest could be infinite.
	high := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.score, b.score) }).score
	for i := range all {
		all[i].score = (all[i].score - high) / s.Temperature
	}
	left := largest(all, s.TopK)
	softmax(left)
	left = s.nucleus(left)
	if s.MinP > 0 {
		least := s.MinP * slices.MaxFunc(left, byProb).prob
		left = slices.DeleteFunc(left, func(c candidate) bool { return c.prob < least })
	}
	return draw(left, s.rng.Float64())
}

// likeliest returns the first token of those with the largest logit.
func likeliest(logits []float32) (id int32) {
	const part = 1 << 12 // what is looked at token by token
	most, at := float32(math.Inf(-1)), 0
	for from := 0; from < len(logits); from += part {
		if m := simd.Max(logits[from:min(from+part, len(logits))]); m > most {
			most, at = m, from
		}
	}
	return int32(at + max(0, slices.Index(logits[at:], most)))
}

// penalizes reports whether tokens that were there before are less likely.
func (s *Sampler) penalizes() bool { return s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1 }

// penalize makes tokens that were there before less likely, each once, however often it
// was there.
func (s *Sampler) penalize(all []candidate, before []int32) {
	if !s.penalizes() {
		return
	}
	clear(s.seen)
	for _, id := range before {
		if s.seen[id] || int(id) >= len(all) {
			continue
		}
		s.seen[id] = true
		if c := &all[id]; c.score < 0 {
			c.score *= s.RepetitionPenalty
		} else {
			c.score /= s.RepetitionPenalty
		}
	}
}

// largest keeps the k candidates with the largest scores, and those that equal the last
// of them, in place; 0 keeps all.
func largest(all []candidate, k int) []candidate {
	if k <= 0 || k >= len(all) {
		return all
	}
	// The k largest scores so far, the smallest of them first: a heap.
	top := make([]float64, 0, k)
	for _, c := range all {
		switch {
		case len(top) < k:
			if top = append(top, c.score); len(top) == k {
				slices.Sort(top) // which is a heap, too
			}
		case c.score > top[0]:
			top[0] = c.score
			heap.Fix(smallestFirst{top}, 0)
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.score < top[0] })
}

// smallestFirst is a heap for its Fix alone.
type smallestFirst struct{ sort.Float64Slice }

func (smallestFirst) Push(any) {}
func (smallestFirst) Pop() any { return nil }

// softmax sets the probabilities. The largest score is 0.
func softmax(all []candidate) {
	sum := 0.0
	for i := range all {
		all[i].prob = math.Exp(all[i].score)
		sum += all[i].prob
	}
	for i := range all {
		all[i].prob /= sum
	}
}

// nucleus drops the least likely candidates, as long as they have no more than 1-p
// together, in place; the likeliest stays in any case.
func (s *Sampler) nucleus(all []candidate) []candidate {
	if s.TopP == 1 {
		return all
	}
	// Those below an equal share of 1-p go in any case, and need not be sorted.
	rest, share := 1-s.TopP, (1-s.TopP)/float64(len(all))
	gone := 0.0
	most := slices.MaxFunc(all, byProb)
	all = slices.DeleteFunc(all, func(c candidate) bool {
		if c.prob >= share || c.id == most.id {
			return false
		}
		gone += c.prob
		return true
	})
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(byProb(b, a), cmp.Compare(a.id, b.id)) })
	for len(all) > 1 && gone+all[len(all)-1].prob <= rest {
		gone += all[len(all)-1].prob
		all = all[:len(all)-1]
	}
	return all
}

func byProb(a, b candidate) int { return cmp.Compare(a.prob, b.prob) }

// draw chooses by probability; at is a number in [0, 1).
func draw(all []candidate, at float64) int32 {
	sum := 0.0
	for _, c := range all {
		sum += c.prob
	}
	at *= sum
	for _, c := range all {
		if at -= c.prob; at < 0 {
			return c.id
		}
	}
	return all[len(all)-1].id // what rounding left over
}
