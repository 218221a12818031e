package data

import "slices"

// mostSteps is how many steps have their rows sorted together, by Loader.Group.
const mostSteps = 50

// Group has rows of similar lengths follow each other, so that batches need little padding. Of an epoch's order, the
// rows of as many steps as make a quarter of it, but of 50 at most, are sorted, the longest first, and so on; the
// longest of all comes first, so that what does not fit in memory shows at once. A step has so many rows. That is the
// order of LengthGroupedSampler in transformers, but for the random numbers. It depends on the seed and the epoch, and
// so a run that is resumed goes on with it. It fails only where reading a row does.
func (l *Loader) Group(step int) (err error) {
	if l.lengths, err = lengthsOf(l.rows); err != nil {
		return err
	}
	l.step = max(step, 1)
	l.shuffle(l.epoch)
	return nil
}

func lengthsOf(rows Rows) ([]int32, error) {
	all := make([]int32, rows.Len())
	for i := range all {
		n, err := Length(rows, i)
		if err != nil {
			return nil, err
		}
		all[i] = int32(n)
	}
	return all, nil
}

// group sorts the order of an epoch.
func (l *Loader) group() {
	chunk := l.step * max(1, min(len(l.order)/(4*l.step), mostSteps))
	first := 0 // the chunk that has the longest row
	for at := 0; at < len(l.order); at += chunk {
		rows := l.order[at:min(at+chunk, len(l.order))]
		slices.SortStableFunc(rows, func(a, b int) int { return int(l.lengths[b] - l.lengths[a]) })
		if l.lengths[rows[0]] > l.lengths[l.order[first]] {
			first = at
		}
	}
	l.order[0], l.order[first] = l.order[first], l.order[0]
}

// MostTargets returns the most tokens that one of so many batches, from the first on, asks the model to predict; see
// Batch.Targets. The next batch stays the one that it was.
func (l *Loader) MostTargets(batches int) (most int, err error) {
	epoch, each := l.epoch, l.BatchesPerEpoch()
	defer func() { l.shuffle(epoch) }()
	for i := range batches {
		at := i % each
		if at == 0 {
			l.shuffle(i / each)
		}
		// Batches themselves are not made: those that are too large for memory are asked about as well.
		n, places := 0, 0
		for _, row := range l.order[at*l.batch : min((at+1)*l.batch, len(l.order))] {
			r, err := l.rows.Row(row)
			if err != nil {
				return 0, err
			}
			n, places = n+r.targets(), len(r.IDs)-1
		}
		if most = max(most, n); most == l.batch*places {
			break // there can be no more
		}
	}
	return most, nil
}

// Longest returns the length of the longest row in each batch of the first epoch.
func (l *Loader) Longest() ([]int, error) {
	lengths, err := l.lengths, error(nil)
	if lengths == nil {
		if lengths, err = lengthsOf(l.rows); err != nil {
			return nil, err
		}
	}
	epoch := l.epoch
	l.shuffle(0)
	defer l.shuffle(epoch)
	var all []int
	for batch := range slices.Chunk(l.order, l.batch) {
		longest := int32(0)
		for _, row := range batch {
			longest = max(longest, lengths[row])
		}
		all = append(all, int(longest))
	}
	return all, nil
}
