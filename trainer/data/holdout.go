package data

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// HoldOut splits documents (or rows) into those to train on and a random fraction,
// between 0 and 1 and rounded up, to evaluate on. Both keep their order, and both get at
// least one item unless fraction is 0, which holds nothing out.
func HoldOut[T any](items []T, fraction float64, seed uint64) (train, held []T, err error) {
	if !(fraction >= 0 && fraction < 1) { // also refuses NaN
		return nil, nil, fmt.Errorf("data: cannot hold out a fraction of %g; want 0 or more, and less than 1", fraction)
	}
	if fraction == 0 {
		return items, nil, nil
	}
	if len(items) < 2 {
		return nil, nil, errors.New("data: cannot hold out a part of fewer than two documents; give a file to evaluate on")
	}
	held, train = split(items, int(math.Ceil(fraction*float64(len(items)))), seed)
	return train, held, nil
}

// HoldOutN is HoldOut of n items. It holds nothing out if n is 0.
func HoldOutN[T any](items []T, n int, seed uint64) (train, held []T, err error) {
	if n < 0 || n >= len(items) && n > 0 {
		return nil, nil, fmt.Errorf("data: cannot hold out %d of %d", n, len(items))
	}
	held, train = split(items, n, seed)
	return train, held, nil
}

// split takes n items out, but not all.
func split[T any](items []T, n int, seed uint64) (held, rest []T) {
	if n == 0 {
		return nil, items
	}
	n = min(n, len(items)-1)
	isHeld := make([]bool, len(items))
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(items))[:n] {
		isHeld[i] = true
	}
	for i, item := range items {
		if isHeld[i] {
			held = append(held, item)
		} else {
			rest = append(rest, item)
		}
	}
	return held, rest
}
