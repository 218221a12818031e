package data

import (
	"fmt"
	"iter"
)

// Batch is B rows of S tokens. Each slice holds B*S values, row by row; they mean
// what they mean in Row.
type Batch struct {
	B, S                             int
	IDs, Labels, Positions, Segments []int32
	Roles                            [][]Role  // of each row; nil if all are Plain
	Forks                            [][]int32 // of each row; nil if there are none
}

// Valid returns an error unless the batch has what it says: a row and a token or more, B*S values in each slice, Roles
// and Forks of each row if of any, and forks that lie in their row.
func (b Batch) Valid() error {
	if b.B < 1 || b.S < 1 {
		return fmt.Errorf("data: a batch of %d rows of %d tokens: Batch.B and Batch.S are 1 or more", b.B, b.S)
	}
	for _, s := range []struct {
		name   string
		values []int32
	}{{"IDs", b.IDs}, {"Labels", b.Labels}, {"Positions", b.Positions}, {"Segments", b.Segments}} {
		if len(s.values) != b.B*b.S {
			return fmt.Errorf("data: Batch.%s has %d values, and %d rows of %d tokens take %d", s.name, len(s.values), b.B, b.S,
				b.B*b.S)
		}
	}
	if b.Roles != nil && len(b.Roles) != b.B {
		return fmt.Errorf("data: Batch.Roles are of %d rows, of %d: make it nil if all are Plain", len(b.Roles), b.B)
	}
	if b.Forks != nil && len(b.Forks) != b.B {
		return fmt.Errorf("data: Batch.Forks are of %d rows, of %d: make it nil if there are none", len(b.Forks), b.B)
	}
	for row := range b.Forks {
		if err := b.validForks(row); err != nil {
			return fmt.Errorf("data: row %d of the batch: %w", row, err)
		}
	}
	return nil
}

// Scored reports whether the model's output at place t of the batch is scored, which is against Labels[t+1]. That of
// the last place of a row is not.
func (b Batch) Scored(t int) bool { return (t+1)%b.S != 0 && b.Labels[t+1] != Ignore }

// Targets returns the number of tokens that the batch asks the model to predict: the
// labels that are not Ignore, but for the first of each row, which has no token
// before it.
func (b Batch) Targets() int {
	n := 0
	for t := range b.Labels {
		if b.Scored(t) {
			n++
		}
	}
	return n
}

// targets is Batch.Targets of one row.
func (r Row) targets() int { return Batch{B: 1, S: len(r.IDs), Labels: r.Labels}.Targets() }

// stack joins rows of equal length.
func stack(rows []Row) Batch {
	b := Batch{B: len(rows), S: len(rows[0].IDs)}
	join := func(of func(Row) []int32) []int32 {
		all := make([]int32, 0, b.B*b.S)
		for _, r := range rows {
			all = append(all, of(r)...)
		}
		return all
	}
	b.IDs = join(func(r Row) []int32 { return r.IDs })
	b.Labels = join(func(r Row) []int32 { return r.Labels })
	b.Positions = join(func(r Row) []int32 { return r.Positions })
	b.Segments = join(func(r Row) []int32 { return r.Segments })
	for i, r := range rows {
		if r.Roles != nil && b.Roles == nil {
			b.Roles = make([][]Role, b.B)
		}
		if r.Roles != nil {
			b.Roles[i] = r.Roles
		}
		if r.Forks != nil && b.Forks == nil {
			b.Forks = make([][]int32, b.B)
		}
		if r.Forks != nil {
			b.Forks[i] = r.Forks
		}
	}
	return b
}

// filled returns the rows of a batch: n of them, of which there is at least one, and rows
// of padding, in which every label is Ignore.
func filled(batch, n int, row func(i int) (Row, error)) ([]Row, error) {
	rows := make([]Row, batch)
	for i := range rows {
		if i < n {
			var err error
			if rows[i], err = row(i); err != nil {
				return nil, err
			}
			continue
		}
		rows[i] = padding(len(rows[0].IDs))
	}
	return rows, nil
}

// Stream yields all rows in order, batch rows at a time, for evaluation. A last batch that
// is not full is filled up with rows of padding, in which every label is Ignore, so that
// all batches have one shape. The rows must have equal lengths, as Pack's and Packed's do.
// A batch below 1 counts as 1.
//
// When a row cannot be read, the batches end before it, and failed returns the error.
func Stream(rows Rows, batch int) (batches iter.Seq[Batch], failed func() error) {
	return StreamPart(rows, batch, 0, 1)
}

// StreamPart is Stream of the batches of one of several parts, to which they are dealt in turn. Rows of the others are
// not read.
func StreamPart(rows Rows, batch, part, parts int) (batches iter.Seq[Batch], failed func() error) {
	batch = max(batch, 1)
	var failure error
	return func(yield func(Batch) bool) {
		for i := batch * part; i < rows.Len(); i += batch * parts {
			var chunk []Row
			chunk, failure = filled(batch, min(batch, rows.Len()-i), func(k int) (Row, error) { return rows.Row(i + k) })
			if failure != nil || !yield(stack(chunk)) {
				return
			}
		}
	}, func() error { return failure }
}

// Batches is Stream of rows in memory, which cannot fail.
func Batches(rows []Row, batch int) iter.Seq[Batch] {
	batches, _ := Stream(Slice(rows), batch)
	return batches
}
