package data

import "fmt"

// Ignore is the label of a token that is not to be predicted.
const Ignore int32 = -100

// None stands for a token that a vocabulary does not have.
const None int32 = -1

// Row is one sequence of a batch, made of examples or parts of them. All slices but
// Roles have the same length.
type Row struct {
	IDs []int32
	// Labels are not shifted: the model scores its output at t against Labels[t+1].
	// The first token of each part is Ignore, since nothing before it belongs to it, but for that after a fork.
	Labels []int32
	// Positions count the tokens of each part from 0, those that it has in common with the next among them.
	Positions []int32
	// Segments number the parts of the row from 1; 0 is padding. Tokens attend only
	// within their segment.
	Segments []int32
	// Roles are what the parts are in training on preferences, where each is a whole answer with its
	// prompt; nil if all are Plain. It is as long as there are parts.
	Roles []Role
	// Forks are, of each part, how many tokens it has in common with the next one, whose beginning they are and
	// where alone they stand; nil if no part has any. See fork.go. It is as long as there are parts.
	Forks []int32
}

// Rows are rows of equal length, numbered from 0. Row may fail where the rows are not in
// memory; what it returns is the caller's.
type Rows interface {
	Len() int
	Row(i int) (Row, error)
}

// Slice is Rows in memory.
type Slice []Row

// Len returns the number of rows.
func (s Slice) Len() int { return len(s) }

// Row returns row i, which shares its memory with s.
func (s Slice) Row(i int) (Row, error) { return s[i], nil }

// check reports rows of different lengths.
func (s Slice) check() error {
	for i, r := range s {
		if len(r.IDs) != len(s[0].IDs) {
			return fmt.Errorf("data: row %d has %d tokens, row 0 has %d; pack all rows to one length", i, len(r.IDs),
				len(s[0].IDs))
		}
	}
	return nil
}

// Subset is some of the rows of another Rows.
type Subset struct {
	Of      Rows
	Numbers []int // of the rows in Of
}

// Len returns the number of rows.
func (s Subset) Len() int { return len(s.Numbers) }

// Row returns row i of the subset.
func (s Subset) Row(i int) (Row, error) { return s.Of.Row(s.Numbers[i]) }

// Joined is the rows of several Rows, one after the other.
type Joined []Rows

// Len returns the number of rows.
func (j Joined) Len() (n int) {
	for _, rows := range j {
		n += rows.Len()
	}
	return n
}

// Row returns row i of all.
func (j Joined) Row(i int) (Row, error) {
	rows, i := j.find(i)
	return rows.Row(i)
}

func (j Joined) find(i int) (Rows, int) {
	for _, rows := range j[:len(j)-1] {
		if i < rows.Len() {
			return rows, i
		}
		i -= rows.Len()
	}
	return j[len(j)-1], i
}

func (j Joined) examples(i int) []int {
	rows, i := j.find(i)
	return Examples(rows, i)
}

// Examples returns the numbers, in the order of reading, of the examples that the parts of row i are of; nil for
// rows that were not made of a Store.
func Examples(rows Rows, i int) []int {
	if r, ok := rows.(interface{ examples(i int) []int }); ok {
		return r.examples(i)
	}
	return nil
}

func (s Subset) examples(i int) []int { return Examples(s.Of, s.Numbers[i]) }

func newRow(seq int) Row {
	all := make([]int32, 4*seq) // one allocation for the four slices
	slice := func(i int) []int32 { return all[i*seq : i*seq : (i+1)*seq] }
	return Row{IDs: slice(0), Labels: slice(1), Positions: slice(2), Segments: slice(3)}
}

// padding returns a row of nothing else.
func padding(seq int) Row {
	r := newRow(seq)
	r.fill(0) // every vocabulary has a token 0
	return r
}

// add appends a part of an example, encoded as in a Store, whose first place has the given label; the row has room
// for it.
func (r *Row) add(part []int32, segment, label int32) {
	for i, v := range part {
		id, learn := decode(v)
		if i > 0 {
			label = Ignore
		}
		if learn && i > 0 {
			label = id
		}
		r.IDs = append(r.IDs, id)
		r.Labels = append(r.Labels, label)
		r.Positions = append(r.Positions, int32(i))
		r.Segments = append(r.Segments, segment)
	}
}

// fill appends padding up to the row's full length.
func (r *Row) fill(pad int32) {
	for len(r.IDs) < cap(r.IDs) {
		r.IDs = append(r.IDs, pad)
		r.Labels = append(r.Labels, Ignore)
		r.Positions = append(r.Positions, 0)
		r.Segments = append(r.Segments, 0)
	}
}
