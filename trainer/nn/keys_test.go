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
		if err := c.Batch().Fill(b, 1); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("segments %v: error %v, want one with %q", second, err, want)
		}
	}
}

// TestABatchWithoutAllValuesIsRefused: those of the batch before would stay.
func TestABatchWithoutAllValuesIsRefused(t *testing.T) {
	c := newContext(t, 2, 2)
	fill(t, c, plainBatch(2, 2))
	b := plainBatch(2, 2)
	b.IDs = b.IDs[:2]
	if err := c.Batch().Fill(b, 1); err == nil || !strings.Contains(err.Error(), "Batch.IDs has 2 values") {
		t.Errorf("error %v", err)
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

// TestAForkSeesItselfAndItsBeginning has three documents, of which the first forks off the second after two tokens: the
// tokens of a text are a document's own, by their order in it, and before them those that it has in common.
func TestAForkSeesItselfAndItsBeginning(t *testing.T) {
	const s = 10
	c := newContext(t, 2, s)
	b := plainBatch(2, s)
	segments := []int32{1, 1, 1, 2, 2, 2, 2, 3, 3, 0}
	copy(b.Segments[s:], segments)
	b.Forks = [][]int32{nil, {2, 0, 0}}
	fill(t, c, b)
	texts := [][]int{{3, 4, 2, 1, 0}, {3, 4, 5, 6}, {7, 8}} // the places of each one's tokens
	for place := range s - 1 {
		own := texts[segments[place]-1]
		want := slices.Clone(own[:slices.Index(own, place)+1])
		slices.Sort(want)
		var got []int
		for j := c.Batch().Keys[2*(s+place)]; j < c.Batch().Keys[2*(s+place)+1]; j++ {
			got = append(got, int(j)-s)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the token at %d sees %v, want %v", place, got, want)
		}
	}
	if c.Batch().Keys[2*(s-1)] != 0 || c.Batch().Keys[2*(s-1)+1] != s {
		t.Errorf("a row without forks: the last token sees %v", c.Batch().Keys[2*(s-1):2*s])
	}
}

func TestForksThatAreNoRangesAreRefused(t *testing.T) {
	for want, change := range map[string]struct {
		forks    []int32
		segments []int32
		window   int
	}{
		"document 1 forks off the next one after 3": {[]int32{3, 0}, []int32{1, 1, 2, 2}, 0},
		"document 2 forks off the next one after 1": {[]int32{0, 1}, []int32{1, 1, 2, 2}, 0},
		"document 3 forks off the next one after 1": {[]int32{0, 0, 1}, []int32{1, 1, 2, 2}, 0},
		"but layers see 3 tokens only":              {[]int32{2, 0}, []int32{1, 1, 2, 2}, 3},
		"":                                          {[]int32{0, 2, 0}, []int32{1, 2, 3, 3}, 3},
	} {
		c := newContext(t, 1, 4)
		c.keysWithin(change.window)
		b := plainBatch(1, 4)
		b.Segments, b.Forks = change.segments, [][]int32{change.forks}
		if err := c.Batch().Fill(b, 1); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("segments %v, forks %v: error %v, want one with %q", change.segments, change.forks, err, want)
		}
	}
}
