package data

import (
	"fmt"
	"slices"
)

// Two answers to one prompt begin with the same tokens. A row can have these once, as the beginning of the second
// answer, if what the first one has of its own stands before them, backwards:
//
//	place     0   1   2 |  3   4   5   6   7
//	token    a2  a1  p2 | p0  p1  p2  b1  b2
//	position  4   3   2 |  0   1   2   3   4
//	label             a2 | a1          b1  b2
//
// So all that a token sees lies side by side: a1 sees places 1 to 4, and b1 sees 3 to 6. The last token of the prompt,
// p2, is there twice, because its output is scored against two tokens. The label against which the output at place 2
// is scored is at place 3, as everywhere, though that belongs to the second answer.

// Common returns with how many tokens both parts begin of which none is scored against a token of the first to be
// learned: so many can stand in a row once. The first has a token more.
func Common(first, second Part) int {
	most := min(len(first.IDs)-1, len(second.IDs))
	for n := range most {
		if first.IDs[n] != second.IDs[n] || first.Learn[n+1] {
			return n
		}
	}
	return max(most, 0)
}

// fork appends the rest of an example's part, encoded as in a Store, of which so many tokens are the beginning of the
// next part. It returns the label of the first place after it.
func (r *Row) fork(rest []int32, segment, common int32) (next int32) {
	label := func(i int) int32 {
		if i < len(rest) {
			if id, learn := decode(rest[i]); learn {
				return id
			}
		}
		return Ignore
	}
	for i := len(rest) - 1; i >= 0; i-- {
		id, _ := decode(rest[i])
		r.IDs = append(r.IDs, id)
		r.Labels = append(r.Labels, label(i+2)) // the place before this has token i+1
		r.Positions = append(r.Positions, common+int32(i))
		r.Segments = append(r.Segments, segment)
	}
	return label(1)
}

// Span is where a part of a row has its own tokens in a batch: places From to End-1.
type Span struct {
	From, End int
	Common    int // tokens that are its beginning and stand after it, as in a Row's Forks
}

// Spans returns those of a row's parts, as many as it has Roles.
func (b Batch) Spans(row int) (all []Span) {
	at := row * b.S
	for part := range b.Roles[row] {
		s := Span{From: at}
		for at < (row+1)*b.S && b.Segments[at] == int32(part+1) {
			at++
		}
		s.End = at
		if b.Forks != nil && b.Forks[row] != nil {
			s.Common = int(b.Forks[row][part])
		}
		all = append(all, s)
	}
	return all
}

// validForks reports a document of a row that forks off what is not there.
func (b Batch) validForks(row int) error {
	forks := b.Forks[row]
	if forks != nil && b.Roles != nil && b.Roles[row] != nil && len(forks) != len(b.Roles[row]) {
		return fmt.Errorf("Batch.Forks are of %d documents, Batch.Roles of %d", len(forks), len(b.Roles[row]))
	}
	at, segments := 0, b.Segments[row*b.S:][:b.S]
	for part, common := range forks {
		from := at
		for at < b.S && int(segments[at]) == part+1 {
			at++
		}
		if common == 0 {
			continue
		}
		if common < 0 || from == at || int(common) > b.S-at || int(segments[at+int(common)-1]) != part+2 {
			return fmt.Errorf("document %d forks off the next one after %d tokens, which that does not have", part+1, common)
		}
	}
	return nil
}

// Part returns the tokens of a part from its beginning on, and their labels, wherever they stand.
func (b Batch) Part(s Span) (ids, labels []int32) {
	if s.From == s.End {
		return nil, nil
	}
	if s.Common == 0 {
		labels = append([]int32{Ignore}, b.Labels[s.From+1:s.End]...) // what the first place has is of the part before
		return b.IDs[s.From:s.End], labels
	}
	ids = append(ids, b.IDs[s.End:][:s.Common]...)
	labels = slices.Repeat([]int32{Ignore}, s.Common+1)
	for t := s.End - 1; t >= s.From; t-- {
		ids = append(ids, b.IDs[t])
		if t > s.From {
			labels = append(labels, b.Labels[t+1])
		}
	}
	return ids, labels
}
