package core

import "fmt"

// Points is what the elements of an input of indices point at. The zero value is that of
// an input that has no indices.
type Points struct {
	To     int    // how many there are to point at: a size, or a symbolic axis
	Each   int    // of each of them there are so many; 0 for 1
	Of     string // says so, for messages, with the number for %d
	Some   bool   // a negative element points at nothing; otherwise none may be negative
	Ranges bool   // pairs: the first, and the end of a range, which is not before it and at most To
}

// atExperts is what expert_ids point at.
func atExperts(f Facts) Points { return Points{To: f.Experts, Of: "there are %d experts"} }

// check verifies the elements of t, named so; bound are the values of symbolic axes.
func (p Points) check(name string, t Tensor, bound [dims]int) error {
	if p.To == 0 {
		return nil
	}
	n := p.To
	if n < 0 {
		n = bound[-n-1]
	}
	n *= max(p.Each, 1)
	v := t.Int32s()
	if p.Ranges {
		for i := 0; i+1 < len(v); i += 2 {
			if first, end := v[i], v[i+1]; first < 0 || first > end || int(end) > n {
				return fmt.Errorf("%s[%d] is [%d, %d), "+p.Of, name, i/2, first, end, n)
			}
		}
		return nil
	}
	for i, at := range v {
		if int(at) >= n || at < 0 && !p.Some {
			return fmt.Errorf("%s%s is %d, "+p.Of, name, place(t.Shape, i), at, n)
		}
	}
	return nil
}

// place names element i of a tensor of one axis or two, as [2] or [2,0].
func place(s Shape, i int) string {
	if len(s) == 1 {
		return fmt.Sprintf("[%d]", i)
	}
	k := s[len(s)-1]
	return fmt.Sprintf("[%d,%d]", i/k, i%k)
}
