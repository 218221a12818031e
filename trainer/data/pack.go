package data

import (
	"errors"
	"fmt"
	"slices"
)

// Ignore is the label of a token that is not to be predicted.
const Ignore int32 = -100

// Row is one sequence of a batch, made of parts of documents. All slices have the
// same length.
type Row struct {
	IDs []int32
	// Labels are not shifted: the model scores its output at t against Labels[t+1].
	// The first token of each part is Ignore, since nothing before it belongs to it.
	Labels []int32
	// Positions count the tokens of each part from 0.
	Positions []int32
	// Segments number the parts of the row from 1; 0 is padding. Tokens attend only
	// within their segment.
	Segments []int32
}

// Pack lays the documents end to end and cuts the result into rows of seq tokens. A
// document that meets the end of a row goes on in the next one, as a part of its own
// that cannot see the first. The last row is filled up with pad. A row without anything
// to predict is dropped, such as one whose documents have a single token each. What pad
// is does not matter to training, but it must be in the vocabulary; None means 0.
//
// It is an error if seq is below 2 or no row has anything to predict.
func Pack(docs [][]int32, seq int, pad int32) ([]Row, error) {
	if seq < 2 {
		return nil, fmt.Errorf("data: a row of %d tokens has nothing to predict; use a sequence length of 2 or more", seq)
	}
	var rows []Row
	row, segment := newRow(seq), int32(0)
	for _, ids := range docs {
		for len(ids) > 0 {
			if len(row.IDs) == seq {
				rows = row.appendTo(rows)
				row, segment = newRow(seq), 0
			}
			segment++
			part := ids[:min(len(ids), seq-len(row.IDs))]
			row.add(part, segment)
			ids = ids[len(part):]
		}
	}
	row.fill(max(pad, 0))
	if rows = row.appendTo(rows); len(rows) == 0 {
		return nil, errors.New("data: the documents are too short to learn from: none has two tokens in a row")
	}
	return rows, nil
}

func newRow(seq int) Row {
	all := make([]int32, 4*seq) // one allocation for the four slices
	slice := func(i int) []int32 { return all[i*seq : i*seq : (i+1)*seq] }
	return Row{slice(0), slice(1), slice(2), slice(3)}
}

// add appends a part of a document; the row has room for it.
func (r *Row) add(part []int32, segment int32) {
	r.IDs = append(r.IDs, part...)
	r.Labels = append(append(r.Labels, Ignore), part[1:]...)
	for i := range part {
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

// appendTo appends the row, unless it has no token to predict.
func (r Row) appendTo(rows []Row) []Row {
	if !slices.ContainsFunc(r.Labels, func(l int32) bool { return l != Ignore }) {
		return rows
	}
	return append(rows, r)
}
