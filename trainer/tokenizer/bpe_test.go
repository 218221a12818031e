package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naiveMerge does what mergeAll does, as the paper says it: look at all neighbours,
// merge the leftmost of those that rank first, again and again.
func naiveMerge(ids []int32, merges map[pair]merge) []int32 {
	for {
		best, at := merge{}, -1
		for i := 0; i+1 < len(ids); i++ {
			if m, ok := merges[pair{ids[i], ids[i+1]}]; ok && (at < 0 || m.rank < best.rank) {
				best, at = m, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// randomMerges makes n merges of tokens that begin with letters 0 to 3.
func randomMerges(rng *rand.Rand, n int) map[pair]merge {
	merges := make(map[pair]merge)
	for i := range int32(n) {
		p := pair{rng.Int32N(1 + rng.Int32N(4+i)), rng.Int32N(1 + rng.Int32N(4+i))} // mostly of letters
		if _, ok := merges[p]; !ok {
			merges[p] = merge{rank: rng.Int32N(1000)*1000 + i, id: 4 + i}
		}
	}
	return merges
}

func TestMergeAllEqualsNaiveMerging(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	var w mergeWord
	for range 2000 {
		merges := randomMerges(rng, 1+rng.IntN(30))
		ids := make([]int32, rng.IntN(40))
		w.reset()
		for i := range ids {
			ids[i] = rng.Int32N(4)
			w.add(ids[i])
		}
		w.mergeAll(merges)
		var got []int32
		for i := int32(0); int(i) < len(w.symbols); i = w.symbols[i].next {
			got = append(got, w.symbols[i].id)
		}
		word := fmt.Sprint(ids)
		if want := naiveMerge(ids, merges); !slices.Equal(got, want) {
			t.Fatalf("seed %d, word %s, merges %v: got %v, want %v", seed, word, merges, got, want)
		}
	}
}

func TestWordCacheStaysBoundedAndRight(t *testing.T) {
	var c wordCache
	for i := range maxCachedWords + 10 {
		c.put(fmt.Sprint(i), []int32{int32(i)})
	}
	if n := len(c.words); n > maxCachedWords {
		t.Errorf("%d words, at most %d wanted", n, maxCachedWords)
	}
	last := maxCachedWords + 9
	if got, ok := c.get(fmt.Sprint(last)); !ok || got[0] != int32(last) {
		t.Errorf("the last word has the tokens %v, %v", got, ok)
	}
	long := strings.Repeat("x", maxCachedWord+1)
	c.put(long, []int32{1})
	if _, ok := c.get(long); ok {
		t.Error("a long word was kept")
	}
}

func TestEncodeMergesLongWordsInReasonableTime(t *testing.T) {
	tok := parseByteFile(t, nil)
	ids := tok.Encode(strings.Repeat("hello", 200_000), false) // hours if quadratic
	if len(ids) != 200_000 || ids[0] != 259 {
		t.Errorf("%d ids from %d, want 200000 from 259", len(ids), ids[0])
	}
}
