package nn

import (
	"slices"
	"testing"

	"github.com/seed98097648/tune/trainer/data"
)

func TestAWindowNarrowsTheKeys(t *testing.T) {
	for name, segments := range rowsOfSegments {
		for size := 1; size <= len(segments)+1; size++ {
			// Two rows, so that the second does not see into the first.
			n := len(segments)
			keys := make([]int32, 4*n)
			for row := range 2 {
				if err := setKeys(keys[2*row*n:2*(row+1)*n], segments, row*n); err != nil {
					t.Fatal(err)
				}
			}
			w := window{size, make([]int32, 4*n)}
			w.fill(keys)
			for i := range 2 * n {
				first, end := int(w.keys[2*i]), int(w.keys[2*i+1])
				for j := range 2 * n {
					want := i/n == j/n && visible(segments, i%n, j%n) && i-j < size
					if got := first <= j && j < end; got != want {
						t.Errorf("%s, window of %d: token %d sees token %d: %v, want %v", name, size, i, j, got, want)
					}
				}
				if first < i/n*n || first > end {
					t.Errorf("%s, window of %d: keys of token %d are [%d, %d)", name, size, i, first, end)
				}
			}
		}
	}
}

func TestATokenSeesNoFurtherThanItsWindow(t *testing.T) {
	const s, window = 9, 3
	d := newDecoder(t, tiny(oneLayer, withWindow(window)), 1)
	v, before := d.Vocab(), logits(t, d, 2, s, nil)
	for at := range s {
		after := logits(t, d, 2, s, func(b data.Batch) { b.IDs[at] = (b.IDs[at] + 1) % 23 })
		for i := range 2 * s {
			changed := !slices.Equal(after[i*v:(i+1)*v], before[i*v:(i+1)*v])
			if want := i >= at && i < min(at+window, s); changed != want {
				t.Errorf("token %d depends on token %d: %v, want %v", i, at, changed, want)
			}
		}
	}
}

func TestEachLayerHasItsOwnWindow(t *testing.T) {
	const s = 8
	// One layer that sees two tokens and one that sees three see four together.
	d := newDecoder(t, tiny(func(cfg *DecoderConfig) { cfg.Window = func(layer int) int { return 2 + layer } }), 1)
	v, before := d.Vocab(), logits(t, d, 1, s, nil)
	after := logits(t, d, 1, s, func(b data.Batch) { b.IDs[0] = (b.IDs[0] + 1) % 23 })
	for i := range s {
		if changed := !slices.Equal(after[i*v:(i+1)*v], before[i*v:(i+1)*v]); changed != (i < 4) {
			t.Errorf("token %d depends on token 0: %v", i, changed)
		}
	}
}
