package data

import (
	"slices"
	"strings"
	"testing"
)

// batchOfForks has two rows, of which the second has a document that forks off the next one.
func batchOfForks() Batch {
	return Batch{B: 2, S: 4, IDs: make([]int32, 8), Labels: make([]int32, 8), Positions: make([]int32, 8),
		Segments: []int32{1, 1, 1, 0, 1, 2, 2, 0}, Roles: [][]Role{nil, {Chosen, Rejected}}, Forks: [][]int32{nil, {1, 0}}}
}

func TestABatchThatLacksSomethingIsNotValid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *Batch)
		want   string // "" for none
	}{
		"nothing":               {func(*Batch) {}, ""},
		"no forks":              {func(b *Batch) { b.Forks = nil }, ""},
		"no roles":              {func(b *Batch) { b.Roles = nil }, ""},
		"rows":                  {func(b *Batch) { b.B = 0 }, "0 rows of 4 tokens"},
		"tokens":                {func(b *Batch) { b.S = 0 }, "2 rows of 0 tokens"},
		"fewer than none":       {func(b *Batch) { b.B, b.S = -2, -4 }, "-2 rows"},
		"IDs":                   {func(b *Batch) { b.IDs = nil }, "Batch.IDs has 0 values, and 2 rows of 4 tokens take 8"},
		"half of the labels":    {func(b *Batch) { b.Labels = b.Labels[:4] }, "Batch.Labels has 4"},
		"twice the labels":      {func(b *Batch) { b.Labels = slices.Repeat(b.Labels, 2) }, "Batch.Labels has 16"},
		"positions":             {func(b *Batch) { b.Positions = nil }, "Batch.Positions has 0"},
		"segments":              {func(b *Batch) { b.Segments = nil }, "Batch.Segments has 0"},
		"roles of a row":        {func(b *Batch) { b.Roles = b.Roles[1:] }, "Batch.Roles are of 1 rows, of 2"},
		"forks of a row":        {func(b *Batch) { b.Forks = b.Forks[1:] }, "Batch.Forks are of 1 rows, of 2"},
		"forks of a document":   {func(b *Batch) { b.Forks[1] = []int32{1} }, "Forks are of 1 documents, Batch.Roles of 2"},
		"a fork backwards":      {func(b *Batch) { b.Forks[1][0] = -2 }, "document 1 forks off the next one after -2"},
		"a fork past its row":   {func(b *Batch) { b.Forks[1][0] = 9 }, "row 1 of the batch: document 1 forks off"},
		"a fork into padding":   {func(b *Batch) { b.Forks[1][0] = 3 }, "document 1 forks off the next one after 3"},
		"a fork of no document": {func(b *Batch) { b.Segments[4] = 7 }, "document 1 forks off the next one after 1"},
	} {
		b := batchOfForks()
		c.change(&b)
		if err := b.Valid(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
