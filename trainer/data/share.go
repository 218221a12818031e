package data

// Share deals the next batches as Next does, all at once and to several parts, each of which reads its own rows only:
// so many at a time, in turn. All parts get equally many batches; where the rows do not suffice, they are filled up
// with padding.
func (l *Loader) Share(batches, rows, part, parts int) ([]Batch, error) {
	epoch, at := l.next/l.BatchesPerEpoch(), l.next%l.BatchesPerEpoch()
	if epoch != l.epoch {
		l.shuffle(epoch)
	}
	from := at * l.batch
	end := min(from+batches*l.batch, len(l.order))
	var dealt []Batch
	for first := from; first < end; first += rows * parts {
		own := first + rows*part
		chunk, err := l.own(own, max(0, min(rows, end-own)), rows)
		if err != nil {
			return nil, err
		}
		dealt = append(dealt, stack(chunk))
	}
	l.next += batches
	return dealt, nil
}

// own returns n rows from a place of the order on, and as many of padding as make it so many rows.
func (l *Loader) own(from, n, rows int) ([]Row, error) {
	if n > 0 {
		return filled(rows, n, func(i int) (Row, error) { return l.rows.Row(l.order[from+i]) })
	}
	like, err := l.rows.Row(l.order[0]) // for its length
	if err != nil {
		return nil, err
	}
	chunk := make([]Row, rows)
	for i := range chunk {
		chunk[i] = padding(len(like.IDs))
	}
	return chunk, nil
}
