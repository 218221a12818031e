package data

import (
	"iter"
	"slices"
)

// Batch is B rows of S tokens. Each slice holds B*S values, row by row; they mean
// what they mean in Row.
type Batch struct {
	B, S                             int
	IDs, Labels, Positions, Segments []int32
}

// Targets returns the number of tokens that the batch asks the model to predict: the
// labels that are not Ignore, but for the first of each row, which has no token
// before it.
func (b Batch) Targets() int {
	n := 0
	for i, label := range b.Labels {
		if label != Ignore && i%b.S != 0 {
			n++
		}
	}
	return n
}

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
	return b
}

// Batches yields all rows in order, batch rows at a time, for evaluation. A last
// batch that is not full is filled up with rows of padding, in which every label is
// Ignore, so that all batches have one shape. The rows must have equal lengths, as
// Pack's do. A batch below 1 counts as 1.
func Batches(rows []Row, batch int) iter.Seq[Batch] {
	batch = max(batch, 1)
	return func(yield func(Batch) bool) {
		for chunk := range slices.Chunk(rows, batch) {
			chunk = slices.Clone(chunk)
			for len(chunk) < batch {
				empty := newRow(len(rows[0].IDs))
				empty.fill(0) // every vocabulary has a token 0
				chunk = append(chunk, empty)
			}
			if !yield(stack(chunk)) {
				return
			}
		}
	}
}
