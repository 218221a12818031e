package data

import (
	"slices"
	"testing"
)

// TestSharesAreTheRowsOfTheBatches: whatever the number of parts, a step has the same rows.
func TestSharesAreTheRowsOfTheBatches(t *testing.T) {
	var rows Slice
	for i := range 23 {
		r := newRow(3)
		r.add([]int32{int32(i), int32(i), int32(i)}, 1, Ignore)
		rows = append(rows, r)
	}
	const batch, accumulate = 4, 2
	for _, tt := range []struct{ parts, rows int }{{1, 4}, {2, 4}, {2, 2}, {4, 2}, {8, 1}} {
		whole, err := NewLoader(rows, batch, 7)
		if err != nil {
			t.Fatal(err)
		}
		var shares []*Loader
		for range tt.parts {
			l, err := NewLoader(rows, batch, 7)
			if err != nil {
				t.Fatal(err)
			}
			shares = append(shares, l)
		}
		for step, batches := range []int{2, 2, 2, 2, 2, 2} { // an epoch has 6 batches
			var want, got []int32
			for range batches {
				b, err := whole.Next()
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, firsts(b)...)
			}
			each := 0
			for part, l := range shares {
				dealt, err := l.Share(batches, tt.rows, part, tt.parts)
				if err != nil {
					t.Fatal(err)
				}
				if part == 0 {
					each = len(dealt)
				}
				if len(dealt) != each {
					t.Errorf("%+v, step %d: part %d has %d batches, the first %d", tt, step, part, len(dealt), each)
				}
				for _, b := range dealt {
					if b.B != tt.rows {
						t.Errorf("%+v, step %d: a batch has %d rows", tt, step, b.B)
					}
					got = append(got, firsts(b)...)
				}
			}
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%+v, step %d: the parts have the rows %v, want %v", tt, step, got, want)
			}
		}
	}
}

// firsts returns the first token of each row that is no padding.
func firsts(b Batch) []int32 {
	var ids []int32
	for i := 0; i < len(b.IDs); i += b.S {
		if b.Labels[i+1] != Ignore {
			ids = append(ids, b.IDs[i])
		}
	}
	return ids
}

// readRows tells which rows were read.
type readRows struct {
	Slice
	read []int
}

func (r *readRows) Row(i int) (Row, error) {
	r.read = append(r.read, i)
	return r.Slice.Row(i)
}

func TestAPartOfAStreamReadsItsOwnRows(t *testing.T) {
	for _, tt := range []struct{ rows, batch, parts int }{{7, 2, 3}, {8, 2, 2}, {3, 4, 2}, {5, 1, 1}} {
		var whole [][]int32
		for b := range Batches(rowsOf(tt.rows), tt.batch) {
			whole = append(whole, b.IDs)
		}
		read := make([]int, tt.rows)
		for part := range tt.parts {
			rows := &readRows{Slice: rowsOf(tt.rows)}
			batches, failed := StreamPart(rows, tt.batch, part, tt.parts)
			at := part
			for b := range batches {
				if !slices.Equal(b.IDs, whole[at]) {
					t.Errorf("%+v: part %d has %v where the stream has %v", tt, part, b.IDs, whole[at])
				}
				at += tt.parts
			}
			if err := failed(); err != nil || at < len(whole) {
				t.Errorf("%+v: part %d ends before batch %d of %d: %v", tt, part, at, len(whole), err)
			}
			for _, i := range rows.read {
				read[i]++
			}
		}
		if slices.Max(read) != 1 || slices.Min(read) != 1 {
			t.Errorf("%+v: the rows were read %v times", tt, read)
		}
	}
}

// rowsOf returns rows whose tokens are their numbers.
func rowsOf(n int) Slice {
	var rows Slice
	for i := range n {
		r := newRow(3)
		r.fill(int32(i))
		rows = append(rows, r)
	}
	return rows
}
