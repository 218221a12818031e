package data

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// TestLengthIsThatOfTheTokens compares with the rows themselves, of all kinds of rows.
func TestLengthIsThatOfTheTokens(t *testing.T) {
	p, _, all := packed(t, 30, 16, 1)
	p.Concat(all[:10])
	p.BestFit(all[10:20])
	p.Single(all[20:])
	memory := ofLengths(16, []int{3, 16, 9})
	for name, rows := range map[string]Rows{"packed": p, "memory": memory, "some": Subset{p, []int{2, 0, 5}},
		"joined": Joined{p, memory}, "of another kind": struct{ Rows }{p}} {
		for i := range rows.Len() {
			row, err := rows.Row(i)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for k, s := range row.Segments {
				if s != 0 {
					want = k + 1
				}
			}
			if got, err := Length(rows, i); got != want || err != nil {
				t.Errorf("%s: row %d has %d tokens (%v), want %d", name, i, got, err, want)
			}
		}
	}
}

func TestCutLeavesOnlyPaddingOut(t *testing.T) {
	rows := ofLengths(16, []int{3, 9})
	rows[1].Roles, rows[1].Forks = []Role{Chosen}, []int32{0}
	b := stack(rows)
	if n := b.Longest(); n != 9 {
		t.Errorf("the longest row has %d tokens", n)
	}
	want := stack(ofLengths(10, []int{3, 9}))
	want.Roles, want.Forks = [][]Role{nil, {Chosen}}, [][]int32{nil, {0}}
	if got := b.Cut(10); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := b.Cut(16); !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, want the batch as it was", got)
	}
}

// TestLengthsTakeTheLeastTime tries all choices.
func TestLengthsTakeTheLeastTime(t *testing.T) {
	positions := func(longest, lengths []int) (n int) {
		for _, l := range longest {
			i, _ := slices.BinarySearch(lengths, l)
			n += lengths[i]
		}
		for _, l := range lengths[:len(lengths)-1] {
			n += making * l
		}
		return n
	}
	for name, tt := range map[string]struct {
		longest []int
		atLeast int // so many lengths
	}{
		"all alike": {[]int{100, 100, 100}, 1}, "none": {nil, 1}, "one short": {append(slices.Repeat([]int{100}, 99), 4), 1},
		"two kinds": {[]int{10, 90, 10, 90, 12, 11, 9}, 2}, "many": {randomLengths(500, 100), MostLengths},
		"few": {randomLengths(9, 100), 1}, "all short": {slices.Repeat([]int{8}, 9), 2},
	} {
		got := Lengths(tt.longest, 100)
		if got[len(got)-1] != 100 || len(got) > MostLengths || len(got) < tt.atLeast || !slices.IsSorted(got) {
			t.Errorf("%s: %v", name, got)
		}
		least := math.MaxInt
		for set := range 1 << 12 {
			lengths := []int{}
			for i := range 12 { // 8, 16, ... 96
				if set>>i&1 == 1 {
					lengths = append(lengths, 8*(i+1))
				}
			}
			if len(lengths) < MostLengths {
				least = min(least, positions(tt.longest, append(lengths, 100)))
			}
		}
		if n := positions(tt.longest, got); n != least {
			t.Errorf("%s: %v have %d positions, the best %d", name, got, n, least)
		}
	}
}
