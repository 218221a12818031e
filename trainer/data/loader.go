package data

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Loader deals rows in batches without end: every row once in each epoch, in an order
// that depends only on the seed and the epoch. A batch at the end of an epoch is
// filled up from the next one, so no row is left out when sizes do not divide, and
// fewer rows than a batch needs are no special case.
//
// A Loader is for one goroutine.
type Loader struct {
	rows  []Row
	batch int
	seed  uint64
	next  int // rows dealt so far, over all epochs

	epoch int   // the epoch that order belongs to
	order []int // a permutation of the rows
}

// NewLoader returns a Loader at its first batch. The rows must have equal lengths, as
// Pack's do.
func NewLoader(rows []Row, batch int, seed uint64) (*Loader, error) {
	if len(rows) == 0 {
		return nil, errors.New("data: no rows to train on")
	}
	if batch < 1 {
		return nil, fmt.Errorf("data: batch size %d is below 1", batch)
	}
	for i, r := range rows {
		if len(r.IDs) != len(rows[0].IDs) {
			return nil, fmt.Errorf("data: row %d has %d tokens, row 0 has %d; pack all rows to one length", i, len(r.IDs), len(rows[0].IDs))
		}
	}
	l := &Loader{rows: rows, batch: batch, seed: seed}
	l.shuffle(0)
	return l, nil
}

// StepsPerEpoch returns the number of batches after which every row was seen.
func (l *Loader) StepsPerEpoch() int { return (len(l.rows) + l.batch - 1) / l.batch }

// Seek makes the next batch the one that follows the given number of batches from the
// start: a run that resumes sees the data that it would have seen.
func (l *Loader) Seek(steps int) { l.next = max(steps, 0) * l.batch }

// Next returns the next batch, in fresh memory.
func (l *Loader) Next() Batch {
	rows := make([]Row, l.batch)
	for i := range rows {
		if epoch := l.next / len(l.rows); epoch != l.epoch {
			l.shuffle(epoch)
		}
		rows[i] = l.rows[l.order[l.next%len(l.rows)]]
		l.next++
	}
	return stack(rows)
}

func (l *Loader) shuffle(epoch int) {
	l.epoch = epoch
	l.order = rand.New(rand.NewPCG(l.seed, uint64(epoch))).Perm(len(l.rows))
}
