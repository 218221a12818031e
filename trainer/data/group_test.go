package data

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// ofLengths returns rows of such lengths in seq tokens: row i has the id i everywhere.
func ofLengths(seq int, lengths []int) Slice {
	var rows Slice
	for i, n := range lengths {
		r := newRow(seq)
		r.add(slices.Repeat([]int32{int32(i)}, n), 1, Ignore)
		r.fill(0)
		rows = append(rows, r)
	}
	return rows
}

func randomLengths(n, seq int) []int {
	rng := rand.New(rand.NewPCG(3, 4))
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = 2 + rng.IntN(seq-1)
	}
	return lengths
}

// grouped returns a loader that groups the rows.
func grouped(t *testing.T, rows Rows, batch, step int, seed uint64) *Loader {
	t.Helper()
	l, err := NewLoader(rows, batch, seed)
	if err == nil {
		err = l.Group(step)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestGroupedRowsAreThoseOfLengthGroupedSampler compares with transformers' code, from the same permutation: chunks of
// mega_batch_mult times the rows of a step, sorted, with the longest of all at the front.
func TestGroupedRowsAreThoseOfLengthGroupedSampler(t *testing.T) {
	for _, tt := range []struct{ rows, batch, accumulate int }{{1000, 4, 1}, {103, 3, 2}, {7, 2, 1}, {3, 8, 1},
		{1, 1, 1}} {
		lengths := randomLengths(tt.rows, 40)
		rows, step := ofLengths(40, lengths), tt.batch*tt.accumulate
		l, plain := grouped(t, rows, tt.batch, step, 5), newPlain(t, rows, tt.batch, 5)
		for epoch := range 3 {
			want := deal(plain, plain.BatchesPerEpoch())
			size := min(tt.rows/(4*step), 50)
			if size == 0 {
				size = 1
			}
			size *= step
			var chunks [][]int32
			for i := 0; i < len(want); i += size {
				chunk := want[i:min(i+size, len(want))]
				slices.SortStableFunc(chunk, func(a, b int32) int { return lengths[b] - lengths[a] })
				chunks = append(chunks, chunk)
			}
			most := 0
			for i, c := range chunks {
				if lengths[c[0]] > lengths[chunks[most][0]] {
					most = i
				}
			}
			chunks[0][0], chunks[most][0] = chunks[most][0], chunks[0][0]
			if got := deal(l, l.BatchesPerEpoch()); !slices.Equal(got, want) {
				t.Errorf("%+v, epoch %d: %v, want %v", tt, epoch, got, want)
			}
		}
	}
}

func newPlain(t *testing.T, rows Rows, batch int, seed uint64) *Loader {
	t.Helper()
	l, err := NewLoader(rows, batch, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestGroupedRowsGoOnWhereTheyWere: from wherever it seeks, and in however many parts, a loader deals the rows of one
// that was not interrupted.
func TestGroupedRowsGoOnWhereTheyWere(t *testing.T) {
	rows := ofLengths(40, randomLengths(53, 40))
	whole := grouped(t, rows, 4, 8, 7)
	for at := range 3 * whole.BatchesPerEpoch() {
		want := deal(whole, 1)
		again := grouped(t, rows, 4, 8, 7)
		again.Seek(at)
		if got := deal(again, 1); !slices.Equal(got, want) {
			t.Errorf("batch %d has the rows %v, want %v", at, got, want)
		}
		var parts []int32
		for part := range 2 {
			l := grouped(t, rows, 4, 8, 7)
			l.Seek(at)
			dealt, err := l.Share(1, 2, part, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range dealt {
				for i := 0; i < len(b.IDs); i += b.S {
					if b.Segments[i] != 0 {
						parts = append(parts, b.IDs[i])
					}
				}
			}
		}
		if slices.Sort(parts); !slices.Equal(parts, slices.Sorted(slices.Values(want))) {
			t.Errorf("batch %d: two parts have the rows %v, want %v", at, parts, want)
		}
	}
}

// TestGroupingSparesPadding counts the positions of an epoch's batches, each as long as its longest row.
func TestGroupingSparesPadding(t *testing.T) {
	rows, batch := ofLengths(64, randomLengths(400, 64)), 8
	positions := func(l *Loader) (n, used int) {
		longest, err := l.Longest()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range longest {
			n += batch * s
		}
		for _, length := range randomLengths(400, 64) {
			used += length
		}
		return n, used
	}
	plain, used := positions(newPlain(t, rows, batch, 1))
	sorted, _ := positions(grouped(t, rows, batch, batch, 1))
	if float64(plain) < 1.5*float64(used) || float64(sorted) > 1.15*float64(used) {
		t.Errorf("%d tokens take %d positions, and %d grouped", used, plain, sorted)
	}
}
