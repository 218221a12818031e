package data

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// HoldOut splits documents (or rows) into those to train on and some to evaluate on, chosen at
// random: a size below 1 is a fraction, rounded up, from 1 on it is a number of them. Both keep
// their order, and both get at least one item unless size is 0, which holds nothing out.
func HoldOut[T any](items []T, size float64, seed uint64) (train, held []T, err error) {
	n, most := size, float64(len(items)-1)
	if size < 1 {
		n = min(math.Ceil(size*float64(len(items))), most)
	}
	switch {
	case size == 0:
		return items, nil, nil
	case !(size > 0 && n == math.Trunc(n)): // also refuses NaN
		return nil, nil, fmt.Errorf("data: cannot hold out %g: want a fraction or a whole number", size)
	case n < 1 || n > most:
		return nil, nil, fmt.Errorf("data: cannot hold out %g of %d: give a file to evaluate on", size, len(items))
	}
	isHeld := make([]bool, len(items))
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(items))[:int(n)] {
		isHeld[i] = true
	}
	for i, item := range items {
		if isHeld[i] {
			held = append(held, item)
		} else {
			train = append(train, item)
		}
	}
	return train, held, nil
}
