package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/data"
)

// visible reports whether token i may see token j of its row.
func visible(segments []int32, i, j int) bool {
	return j <= i && segments[j] != 0 && (segments[i] == segments[j] || segments[i] == 0)
}

// rowsOfSegments are rows that can be told by ranges of keys.
var rowsOfSegments = map[string][]int32{
	"one document":              {1, 1, 1, 1},
	"documents":                 {1, 1, 2, 3, 3, 3},
	"numbered in any order":     {7, 7, 2, 5},
	"padding on the right":      {1, 2, 2, 0, 0},
	"padding on the left":       {0, 0, 1, 1},
	"padding on both sides":     {0, 1, 2, 0},
	"padding between documents": {1, 1, 0, 2, 2},
	"nothing but padding":       {0, 0, 0},
	"a single token":            {4},
}

func TestKeysAreWhatSegmentsSay(t *testing.T) {
	for name, segments := range rowsOfSegments {
		const base = 30
		n := len(segments)
		keys := make([]int32, 2*n)
		if err := setKeys(keys, segments, base); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range n {
			for j := range n {
				got := int(keys[2*i]) <= base+j && base+j < int(keys[2*i+1])
				if want := visible(segments, i, j); got != want {
					t.Errorf("%s: token %d sees token %d: %v, want %v", name, i, j, got, want)
				}
			}
			if keys[2*i] < base || keys[2*i] > keys[2*i+1] || int(keys[2*i+1]) > base+n {
				t.Errorf("%s: keys of token %d are [%d, %d), not a range of the row", name, i, keys[2*i], keys[2*i+1])
			}
		}
	}
}

func TestSegmentsThatAreNoRangesAreRefused(t *testing.T) {
	for want, second := range map[string][]int32{
		"row 1 of the batch: token 2 goes on with document 1": {1, 2, 1, 1, 1},
		"token 3 goes on with document 4":                     {4, 4, 0, 4, 4},
		"the padding token 4 has padding among":               {1, 0, 2, 2, 0},
	} {
		c := newContext(t, 2, len(second))
		b := plainBatch(2, len(second))
		copy(b.Segments[len(second):], second)
		if err := c.Batch().Fill(b, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("segments %v: error %v, want one with %q", second, err, want)
		}
	}
}

func TestKeysCountOverTheBatch(t *testing.T) {
	c := newContext(t, 2, 2)
	fill(t, c, data.Batch{B: 2, S: 2, IDs: make([]int32, 4), Labels: make([]int32, 4), Positions: make([]int32, 4),
		Segments: []int32{1, 1, 1, 2}})
	if want := []int32{0, 1, 0, 2, 2, 3, 3, 4}; !slices.Equal(c.Batch().Keys, want) {
		t.Errorf("keys %v, want %v", c.Batch().Keys, want)
	}
}
