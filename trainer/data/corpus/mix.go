package corpus

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// mixture is the examples of several sources with their weights. A weight is the share of a
// source's examples that a pass over the data has: 0.3 takes three of ten, chosen by the
// seed once and for all; 2.5 takes each twice, and every other one a third time.
type mixture []part

type part struct {
	examples []int
	weight   float64
}

// mix reads the sources. Of those with a weight below 1 it chooses what is used.
func (l *loader) mix(ctx context.Context, sources []Source) (mixture, error) {
	var m mixture
	for _, s := range sources {
		from := l.store.Len()
		if err := l.read(ctx, s); err != nil {
			return nil, err
		}
		p := part{weight: s.Weight}
		for i := from; i < l.store.Len(); i++ {
			p.examples = append(p.examples, i)
		}
		if n := s.Samples; n > 0 {
			if l.config.MaxSamples > 0 {
				n = min(n, l.config.MaxSamples)
			}
			p.weight *= float64(n) / float64(len(p.examples))
		}
		if p.weight < 1 {
			p.examples = sample(p.examples, p.weight, l.model.Seed+uint64(from))
			p.weight = 1
		}
		m = append(m, p)
	}
	return m, nil
}

// repeats reports whether a pass over the data has some examples more than once.
func (m mixture) repeats(i Interleaving) bool {
	return i.on() || slices.ContainsFunc(m, func(p part) bool { return p.weight > 1 })
}

// holdOut takes examples out of the mixture to evaluate on; nil if there are too few, or
// none are wanted. What is held out is not trained on, however heavy it weighs.
func (m mixture) holdOut(c Config, seed uint64) ([]int, error) {
	if !c.holdsOut() {
		return nil, nil
	}
	var all []int
	for _, p := range m {
		all = append(all, p.examples...)
	}
	if c.rowsInstead(len(all)) && !m.repeats(c.Mixing) || len(all) < 2 {
		return nil, nil
	}
	train, held, err := holdOut(c, all, seed)
	if err != nil {
		return nil, err
	}
	for i := range m { // sources follow one another in train as in all
		n := 0
		for n < len(train) && train[n] <= m[i].last() {
			n++
		}
		m[i].examples, train = train[:n], train[n:]
	}
	return held, nil
}

func (p part) last() int {
	if len(p.examples) == 0 {
		return -1
	}
	return p.examples[len(p.examples)-1]
}

// examples returns what a pass over the data has.
func (m mixture) examples(i Interleaving, seed uint64) ([]int, error) {
	var sets [][]int
	for _, p := range m {
		sets = append(sets, p.weighed(seed))
	}
	if i.on() {
		return i.examples(sets, seed)
	}
	return slices.Concat(sets...), nil
}

// weighed returns the examples as often as their weight says.
func (p part) weighed(seed uint64) (all []int) {
	whole := math.Floor(p.weight)
	for range int(whole) {
		all = append(all, p.examples...)
	}
	if rest := p.weight - whole; rest > 0 && len(p.examples) > 0 {
		all = append(all, sample(p.examples, rest, seed+uint64(p.examples[0]))...)
	}
	return all
}

// sample returns a share of the examples in their own order, at least one of them.
func sample(examples []int, share float64, seed uint64) []int {
	if len(examples) == 0 {
		return nil
	}
	const stream = 1 << 40 // apart from those of the epochs, which shuffle with the same seed
	n := max(1, int(math.Round(share*float64(len(examples)))))
	chosen := rand.New(rand.NewPCG(seed, stream)).Perm(len(examples))[:n]
	slices.Sort(chosen)
	for i, k := range chosen {
		chosen[i] = examples[k]
	}
	return chosen
}
