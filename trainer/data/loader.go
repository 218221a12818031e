package data

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Loader deals rows in batches without end: every row once in each epoch, in an order
// that depends only on the seed and the epoch. The last batch of an epoch has what is
// left, and is filled up with rows of padding, so that all batches have one shape.
//
// A Loader is for one goroutine.
type Loader struct {
	rows  Rows
	batch int
	seed  uint64
	next  int // batches dealt so far, over all epochs

	epoch int   // the epoch that order belongs to
	order []int // a permutation of the rows

	lengths []int32 // of each row, for Group; nil without
	step    int     // rows of a step, likewise
}

// NewLoader returns a Loader at its first batch. The rows must have equal lengths, as
// Pack's and Packed's do.
func NewLoader(rows Rows, batch int, seed uint64) (*Loader, error) {
	if rows.Len() == 0 {
		return nil, errors.New("data: no rows to train on")
	}
	if batch < 1 {
		return nil, fmt.Errorf("data: batch size %d is below 1", batch)
	}
	if s, ok := rows.(Slice); ok {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	l := &Loader{rows: rows, batch: batch, seed: seed}
	l.shuffle(0)
	return l, nil
}

// BatchesPerEpoch returns the number of batches after which every row was seen.
func (l *Loader) BatchesPerEpoch() int { return (l.rows.Len() + l.batch - 1) / l.batch }

// Seek makes the next batch the one that follows the given number of batches from the
// start: a run that resumes sees the data that it would have seen.
func (l *Loader) Seek(batches int) { l.next = max(batches, 0) }

// Next returns the next batch, in fresh memory. It fails only where reading a row does.
func (l *Loader) Next() (Batch, error) {
	dealt, err := l.Share(1, l.batch, 0, 1)
	if err != nil {
		return Batch{}, err
	}
	return dealt[0], nil
}

func (l *Loader) shuffle(epoch int) {
	l.epoch = epoch
	l.order = rand.New(rand.NewPCG(l.seed, uint64(epoch))).Perm(l.rows.Len())
	if l.step > 0 {
		l.group()
	}
}
