package data

import "slices"

// Length returns the tokens of row i before the padding at its end. It fails only where reading a row does.
func Length(rows Rows, i int) (int, error) {
	if r, ok := rows.(interface{ length(i int) (int, error) }); ok {
		return r.length(i)
	}
	r, err := rows.Row(i)
	return used(r.Segments), err
}

// used returns the tokens of a row before the padding at its end.
func used(segments []int32) int {
	n := len(segments)
	for n > 0 && segments[n-1] == 0 {
		n--
	}
	return n
}

func (p *Packed) length(i int) (n int, err error) {
	for _, piece := range p.pieces[p.starts[i]:p.starts[i+1]] {
		n += int(piece.n)
	}
	return n, nil
}

func (s Subset) length(i int) (int, error) { return Length(s.Of, s.Numbers[i]) }

func (j Joined) length(i int) (int, error) {
	rows, i := j.find(i)
	return Length(rows, i)
}

// Longest returns the tokens of the batch's longest row before the padding at its end.
func (b Batch) Longest() (n int) {
	for row := range b.B {
		n = max(n, used(b.Segments[row*b.S:(row+1)*b.S]))
	}
	return n
}

// Cut returns the batch with rows of s tokens, which is no less than Longest.
func (b Batch) Cut(s int) Batch {
	if s >= b.S {
		return b
	}
	cut := func(values []int32) []int32 {
		all := make([]int32, 0, b.B*s)
		for row := range b.B {
			all = append(all, values[row*b.S:][:s]...)
		}
		return all
	}
	return Batch{B: b.B, S: s, IDs: cut(b.IDs), Labels: cut(b.Labels), Positions: cut(b.Positions),
		Segments: cut(b.Segments), Roles: b.Roles, Forks: b.Forks}
}

// MostLengths is how many Lengths there are at most, since each has a graph that takes memory.
const MostLengths = 8

// Lengths are multiples of a part of the longest. A graph for one takes as long to make, and its first kernels to be
// compared, as so many batches of that length.
const (
	lengthParts = 32
	lengthOf    = 8 // and of this
	making      = 2
)

// Lengths returns the lengths of rows, from the shortest to seq, with graphs for which an epoch takes the least time,
// by the positions that it has: those of batches whose longest rows have so many tokens, and those that making the
// graphs is worth.
func Lengths(longest []int, seq int) []int {
	unit := lengthOf * ((seq + lengthParts*lengthOf - 1) / (lengthParts * lengthOf))
	var lengths, batches []int // and how many batches are no longer
	for n := unit; n < seq; n += unit {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, seq)
	for _, n := range lengths {
		shorter := 0
		for _, l := range longest {
			if l <= n {
				shorter++
			}
		}
		batches = append(batches, shorter)
	}
	return fewest(lengths, batches)
}

// choice is the best lengths of which the last is given, for the batches that are no longer.
type choice struct {
	positions int // of all rows, one of each batch
	lengths   []int
}

// fewest chooses lengths by dynamic programming over how many there may be.
func fewest(lengths, batches []int) []int {
	best := make([]choice, len(lengths)) // by the last length
	for j, n := range lengths {
		best[j] = choice{batches[j] * n, []int{n}}
	}
	for range MostLengths - 1 {
		next := slices.Clone(best)
		for j, n := range lengths {
			for i := range j {
				p := best[i].positions + making*lengths[i] + (batches[j]-batches[i])*n
				if p < next[j].positions {
					next[j] = choice{p, append(slices.Clone(best[i].lengths), n)}
				}
			}
		}
		best = next
	}
	return best[len(best)-1].lengths
}
