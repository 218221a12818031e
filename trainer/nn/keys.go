package nn

import (
	"fmt"
	"slices"
)

// setKeys sets keys [S, 2] to the range [first, end) of keys that each token of a row
// sees: a token of a document the document's up to itself, a token of padding, segment 0,
// all that is no padding before it, as in Hugging Face's masks. Token 0 of the row is
// token base of the batch.
func setKeys(keys, segments []int32, base int) error {
	var document, first, end int // where the document and what is no padding began and ended so far
	for i, s := range segments {
		lo, hi := first, end
		if s != 0 {
			if i == 0 || s != segments[i-1] {
				if slices.Contains(segments[:i], s) {
					return fmt.Errorf("token %d goes on with document %d after other tokens; keep the tokens of a document together",
						i, s)
				}
				document = i
			}
			if i > end {
				first = i
			}
			end = i + 1
			lo, hi = document, end
		} else if slices.ContainsFunc(segments[:first], isReal) {
			return fmt.Errorf("the padding token %d has padding among the tokens before it; pad a row at its ends", i)
		}
		keys[2*i], keys[2*i+1] = int32(base+lo), int32(base+hi)
	}
	return nil
}

// setForks changes the keys of documents that fork off the next one: each of their tokens sees those after it in the
// document, which were written before it, and the first tokens of the next document, which data.Batch.Valid has found
// there. See data.Row.
func (b *Batch) setForks(keys, segments, forks []int32, base int) error {
	at := 0
	for part, common := range forks {
		from := at
		for at < len(segments) && int(segments[at]) == part+1 {
			at++
		}
		if common == 0 {
			continue
		}
		end := at + int(common)
		for _, w := range b.windows {
			if w.size < end-from {
				return fmt.Errorf("document %d, of %d tokens, forks off the next one, but layers see %d tokens only: give it a "+
					"beginning of its own", part+1, end-from, w.size)
			}
		}
		for i := from; i < at; i++ {
			keys[2*i], keys[2*i+1] = int32(base+i), int32(base+end)
		}
	}
	return nil
}

// isReal reports whether a token of this segment is no padding.
func isReal(segment int32) bool { return segment != 0 }
