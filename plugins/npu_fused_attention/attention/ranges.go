package attention

// ranges holds the first and the end of the keys of each query.
type ranges []int32

func (r ranges) len() int { return len(r) / 2 }

func (r ranges) of(t int) (first, end int) { return int(r[2*t]), int(r[2*t+1]) }

// within returns the part of a query's keys within [lo, hi), relative to lo.
func (r ranges) within(t, lo, hi int) (first, end int) {
	first, end = r.of(t)
	first, end = max(first, lo), min(end, hi)
	if first >= end {
		return 0, 0
	}
	return first - lo, end - lo
}

// union returns the least range that holds the keys within [lo, hi) of queries
// [from, to), relative to lo.
func (r ranges) union(from, to, lo, hi int) (first, end int) {
	for t := from; t < to; t++ {
		a, b := r.within(t, lo, hi)
		switch {
		case a == b:
		case first == end:
			first, end = a, b
		default:
			first, end = min(first, a), max(end, b)
		}
	}
	return first, end
}

// common returns the keys within [lo, hi) that all of queries [from, to) see, relative to
// lo; if there are none, first is not less than end.
func (r ranges) common(from, to, lo, hi int) (first, end int) {
	first, end = 0, hi-lo
	for t := from; t < to; t++ {
		a, b := r.of(t)
		first, end = max(first, a-lo), min(end, b-lo)
	}
	return first, end
}

// seen returns the least range of queries within [from, to) that holds all those that
// see a key of [lo, hi), relative to from.
func (r ranges) seen(from, to, lo, hi int) (first, end int) {
	for t := from; t < to; t++ {
		if a, b := r.within(t, lo, hi); a < b {
			if first == end {
				first = t - from
			}
			end = t - from + 1
		}
	}
	return first, end
}

// pairs counts who sees whom.
func (r ranges) pairs() int {
	n := 0
	for t := range r.len() {
		first, end := r.of(t)
		n += end - first
	}
	return n
}

// segment is tokens [lo, hi), among which no query sees a key outside.
type segment struct{ lo, hi int }

// segments cuts the tokens into segments, of at least so many tokens but for the last.
func (r ranges) segments(least int) []segment {
	T := r.len()
	low := make([]int, T+1) // the first key of the queries from t on
	low[T] = T
	for t := T - 1; t >= 0; t-- {
		low[t] = low[t+1]
		if first, end := r.of(t); first < end {
			low[t] = min(low[t], first)
		}
	}
	var all []segment
	lo, reach := 0, 0
	for t := range T {
		if t-lo >= least && reach <= t && low[t] >= t {
			all = append(all, segment{lo, t})
			lo = t
		}
		if first, end := r.of(t); first < end {
			reach = max(reach, end)
		}
	}
	return append(all, segment{lo, T})
}
