package data

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestPack(t *testing.T) {
	const x = Ignore
	for name, c := range map[string]struct {
		docs [][]int32
		seq  int
		want []Row
	}{
		"documents share a row, the rest is padding": {[][]int32{{1, 2, 3}, {4, 5}}, 6, []Row{{
			IDs:       []int32{1, 2, 3, 4, 5, 99},
			Labels:    []int32{x, 2, 3, x, 5, x},
			Positions: []int32{0, 1, 2, 0, 1, 0},
			Segments:  []int32{1, 1, 1, 2, 2, 0},
		}}},
		"a long document goes on in the next rows": {[][]int32{{1, 2}, {3, 4, 5, 6, 7, 8, 9}}, 3, []Row{
			{[]int32{1, 2, 3}, []int32{x, 2, x}, []int32{0, 1, 0}, []int32{1, 1, 2}, nil, nil},
			{[]int32{4, 5, 6}, []int32{x, 5, 6}, []int32{0, 1, 2}, []int32{1, 1, 1}, nil, nil},
			{[]int32{7, 8, 9}, []int32{x, 8, 9}, []int32{0, 1, 2}, []int32{1, 1, 1}, nil, nil},
		}},
		"segments start again in each row": {[][]int32{{1, 2}, {3, 4}, {5, 6, 7}}, 4, []Row{
			{[]int32{1, 2, 3, 4}, []int32{x, 2, x, 4}, []int32{0, 1, 0, 1}, []int32{1, 1, 2, 2}, nil, nil},
			{[]int32{5, 6, 7, 99}, []int32{x, 6, 7, x}, []int32{0, 1, 2, 0}, []int32{1, 1, 1, 0}, nil, nil},
		}},
		"a last row of one token is dropped": {[][]int32{{1, 2}, {3}}, 2, []Row{
			{[]int32{1, 2}, []int32{x, 2}, []int32{0, 1}, []int32{1, 1}, nil, nil},
		}},
		"a row of single tokens teaches nothing": {[][]int32{{1}, {2}, {3, 4}}, 2, []Row{
			{[]int32{3, 4}, []int32{x, 4}, []int32{0, 1}, []int32{1, 1}, nil, nil},
		}},
		"empty documents are left out": {[][]int32{{}, {1}, {}, {2, 3}, nil}, 3, []Row{
			{[]int32{1, 2, 3}, []int32{x, x, 3}, []int32{0, 0, 1}, []int32{1, 2, 2}, nil, nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Pack(c.docs, c.seq, 99)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %v, %v\nwant %v", got, err, c.want)
			}
		})
	}
}

func TestPackRefusesWhatTeachesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		docs [][]int32
		seq  int
	}{
		"sequence of one token": {[][]int32{{1, 2, 3}}, 1},
		"negative sequence":     {[][]int32{{1, 2, 3}}, -4},
		"no documents":          {nil, 8},
		"empty documents":       {[][]int32{{}, {}}, 8},
		"single tokens":         {[][]int32{{1}, {2}, {3}}, 8},
	} {
		if rows, err := Pack(c.docs, c.seq, 0); err == nil {
			t.Errorf("%s: packed %v", name, rows)
		}
	}
}

func TestPackPadsWithAValidTokenWhenThereIsNone(t *testing.T) {
	rows, err := Pack([][]int32{{5, 6}}, 3, None)
	if err != nil || rows[0].IDs[2] != 0 {
		t.Errorf("got %v, %v", rows, err)
	}
}

// Over many random corpora: the tokens of the rows, in order, are those of the
// documents (but for one at the very end), and each label, position and segment
// follows from where its token stood.
func TestPackLosesNoTokenAndMarksEachPart(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		seq := 2 + rng.IntN(12)
		type source struct{ doc, at int }
		var docs [][]int32
		var from []source // of each token, in order
		docs = append(docs, []int32{0, 0})
		from = append(from, source{0, 0}, source{0, 1})
		for d := range rng.IntN(10) {
			ids := make([]int32, rng.IntN(3*seq))
			for i := range ids {
				ids[i] = int32(1 + rng.IntN(50))
				from = append(from, source{d + 1, i})
			}
			docs = append(docs, ids)
		}
		rows, err := Pack(docs, seq, 51)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		// barren reports whether the row at n starts a part with each of its tokens.
		barren := func() bool {
			for i := n; i < min(n+seq, len(from)); i++ {
				if i > n && from[i].at > 0 {
					return false
				}
			}
			return n < len(from)
		}
		for _, r := range rows {
			for barren() {
				n += seq
			}
			for i := range seq {
				if r.Segments[i] == 0 {
					if r.IDs[i] != 51 || r.Labels[i] != Ignore || r.Positions[i] != 0 {
						t.Fatalf("seed %d: bad padding in %v", seed, r)
					}
					continue
				}
				s := from[n]
				n++
				if r.IDs[i] != docs[s.doc][s.at] {
					t.Fatalf("seed %d: token %d is %d, want %d", seed, n-1, r.IDs[i], docs[s.doc][s.at])
				}
				starts := i == 0 || s.at == 0
				switch {
				case starts && (r.Labels[i] != Ignore || r.Positions[i] != 0):
					t.Fatalf("seed %d: a part starts at %d of %v", seed, i, r)
				case !starts && (r.Labels[i] != r.IDs[i] || r.Positions[i] != r.Positions[i-1]+1 ||
					r.Segments[i] != r.Segments[i-1]):
					t.Fatalf("seed %d: a part goes on at %d of %v", seed, i, r)
				case starts && i > 0 && r.Segments[i] != r.Segments[i-1]+1, i == 0 && r.Segments[i] != 1:
					t.Fatalf("seed %d: segment at %d of %v", seed, i, r)
				}
			}
		}
		for barren() {
			n += seq
		}
		if n < len(from) {
			t.Fatalf("seed %d: %d of %d tokens lost with rows of %d", seed, len(from)-n, len(from), seq)
		}
	}
}
