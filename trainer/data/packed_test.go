package data

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// packed returns a Packed of random examples, and all their numbers.
func packed(t testing.TB, n, seq int, seed uint64) (*Packed, []example, []int) {
	t.Helper()
	s := NewStore()
	examples := fill(t, s, n, seed)
	p, err := NewPacked(s, seq, 7)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return p, examples, all
}

// parts cuts a row at its segments, and checks what must hold for each.
func parts(t *testing.T, r Row) []example {
	t.Helper()
	var all []example
	for i := range r.IDs {
		switch {
		case r.Segments[i] == 0:
			if r.IDs[i] != 7 || r.Labels[i] != Ignore || r.Positions[i] != 0 {
				t.Fatalf("bad padding in %v", r)
			}
			continue
		case i == 0 || r.Segments[i] != r.Segments[i-1]:
			all = append(all, example{})
			if int(r.Segments[i]) != len(all) || r.Labels[i] != Ignore {
				t.Fatalf("part %d of %v", len(all), r)
			}
		}
		e := &all[len(all)-1]
		if int(r.Positions[i]) != len(e.ids) || r.Labels[i] != Ignore && r.Labels[i] != r.IDs[i] {
			t.Fatalf("token %d of %v", i, r)
		}
		e.ids = append(e.ids, r.IDs[i])
		e.learn = append(e.learn, r.Labels[i] != Ignore)
	}
	return all
}

// cut is an example as it should be in a row: its beginning, without its first label.
func cut(e example, seq int) example {
	n := min(len(e.ids), seq)
	learn := slices.Clone(e.learn[:n])
	learn[0] = false
	return example{e.ids[:n], learn}
}

// Over many random corpora: each example is in one row, whole or its beginning, apart from
// the others; and no two rows could be one.
func TestBestFitKeepsExamplesWhole(t *testing.T) {
	for seed := range uint64(200) {
		seq := 2 + int(seed%30)
		p, examples, all := packed(t, 1+int(seed%40), seq, seed)
		p.BestFit(all)
		var want, got []example
		for _, e := range examples {
			if len(e.ids) > 1 {
				want = append(want, cut(e, seq))
			}
		}
		var room []int
		for i := range p.Len() {
			r, err := p.Row(i)
			if err != nil || len(r.IDs) != seq {
				t.Fatalf("seed %d: %v, %v", seed, r, err)
			}
			in := parts(t, r)
			used := 0
			for _, e := range in {
				used += len(e.ids)
				if len(e.ids) > 1 {
					got = append(got, e)
				}
			}
			room = append(room, used)
		}
		less := func(a, b example) int { return slices.Compare(a.ids, b.ids) }
		slices.SortFunc(want, less)
		slices.SortFunc(got, less)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, seq %d:\ngot  %v\nwant %v", seed, seq, got, want)
		}
		slices.Sort(room)
		if len(room) > 1 && room[0]+room[1] <= seq {
			t.Errorf("seed %d: rows of %d and %d tokens could be one of %d", seed, room[0], room[1], seq)
		}
	}
}

func TestBestFitFillsRows(t *testing.T) {
	s := NewStore()
	var all []int
	for i, n := range []int{3, 7, 5, 5, 2, 8} { // 10 + 10 + 10
		if err := s.Add(make([]int32, n), nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	p, err := NewPacked(s, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.BestFit(all)
	if p.Len() != 3 {
		t.Errorf("%d rows, want 3", p.Len())
	}
}

func TestSingleGivesEachExampleARow(t *testing.T) {
	s := NewStore()
	for _, ids := range [][]int32{{1, 2}, {3, 4, 5, 6, 8}, {9}} {
		if err := s.Add(ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewPacked(s, 3, 7)
	if err != nil {
		t.Fatal(err)
	}
	p.Single([]int{0, 1, 2})
	var got [][]int32
	for i := range p.Len() {
		r, err := p.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.IDs)
	}
	if want := [][]int32{{1, 2, 7}, {3, 4, 5}, {6, 8, 7}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Which rows there are depends on the examples alone, not on where their tokens are kept.
func TestRowsOnDiskEqualRowsInMemory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	memory, disk := NewStore(), &Store{limit: 30}
	fill(t, memory, 100, 5)
	fill(t, disk, 100, 5)
	all := rand.New(rand.NewPCG(2, 2)).Perm(100)
	var rows [2][]Row
	for i, s := range []*Store{memory, disk} {
		p, err := NewPacked(s, 24, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.Concat(all[:50])
		p.BestFit(all[50:])
		l, err := NewLoader(p, 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		l.Seek(7)
		for range 3 * p.Len() {
			b, err := l.Next()
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = append(rows[i], Row{IDs: b.IDs, Labels: b.Labels, Positions: b.Positions,
				Segments: b.Segments})
		}
	}
	if !reflect.DeepEqual(rows[0], rows[1]) {
		t.Error("they differ")
	}
	if err := disk.Close(); err != nil {
		t.Error(err)
	}
}

func TestSubsetHasTheRowsNamed(t *testing.T) {
	s := Subset{Of: numbered(t, 5), Numbers: []int{3, 1}}
	for i, want := range []int32{3, 1} {
		if r, err := s.Row(i); err != nil || r.IDs[0] != want || s.Len() != 2 {
			t.Errorf("row %d is %v, %v", i, r, err)
		}
	}
}
