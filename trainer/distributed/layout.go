package distributed

import "slices"

// segment is a piece of a tensor that is summed.
type segment struct{ tensor, from, to int }

// bucket is what one collective takes: segments, one after the other.
type bucket struct {
	segments []segment
	elems    int
}

// Elements of a bucket: some MiB keep a network busy and hide behind what is still computed, and each of many nodes
// gets enough of it.
const (
	leastElems = 1 << 20
	mostElems  = 1 << 23
	nodeElems  = 1 << 16
)

// BucketElems returns how many elements a bucket has, where so many nodes sum so many.
func BucketElems(nodes, total int) int { return sized(leastElems, nodes, total) }

func sized(least, nodes, total int) int {
	return min(max(least, nodeElems*nodes), mostElems, max(total, 1))
}

// BufferBytes returns the memory that sums over so many nodes take in each of them, in float32: those of the buckets
// under way, what the others have sent for this node's part of them, and what comes back.
func BufferBytes(nodes, total int) int64 {
	const buffers, element = 3, 4
	return buffers * sets * element * int64(BucketElems(nodes, total))
}

// fill lays tensors of so many elements into buckets, in the order in which they become complete.
func fill(sizes, order []int, most int) []bucket {
	var buckets []bucket
	var b bucket
	for _, t := range order {
		for from := 0; from < sizes[t]; {
			to := min(sizes[t], from+most-b.elems)
			b.segments = append(b.segments, segment{t, from, to})
			b.elems += to - from
			from = to
			if b.elems == most {
				buckets, b = append(buckets, b), bucket{}
			}
		}
	}
	if b.elems > 0 {
		buckets = append(buckets, b)
	}
	return buckets
}

// within calls use for the parts of the segments that lie at [lo, hi) of the bucket, which starts at 0.
func (b bucket) within(lo, hi int, use func(s segment, at int)) {
	at := 0
	for _, s := range b.segments {
		n := s.to - s.from
		from, to := max(lo, at), min(hi, at+n)
		if from < to {
			use(segment{s.tensor, s.from + from - at, s.from + to - at}, from)
		}
		at += n
	}
}

// cut returns where the piece of one of several parts begins that divide n elements: at a cache line.
func cut(n, part, parts int) int {
	if part == parts {
		return n
	}
	return n / 16 * part / parts * 16
}

// topology says which ranks sum in common memory, the first of them for all to the other nodes.
type topology struct {
	nodes [][]int // ranks of each
	node  int     // this rank's
	local int     // its place there
	place int     // its place among all ranks, by nodes
}

// arrange groups ranks by their machines, in the order of their first ranks.
func arrange(hosts []string, rank int) topology {
	var t topology
	of := map[string]int{}
	for i, h := range hosts {
		n, known := of[h]
		if !known {
			n = len(t.nodes)
			of[h], t.nodes = n, append(t.nodes, nil)
		}
		t.nodes[n] = append(t.nodes[n], i)
	}
	t.node = of[hosts[rank]]
	t.local = slices.Index(t.nodes[t.node], rank)
	t.place = t.first(t.node) + t.local
	return t
}

// first returns the place of a node's first rank.
func (t topology) first(node int) int {
	n := 0
	for _, ranks := range t.nodes[:node] {
		n += len(ranks)
	}
	return n
}

func (t topology) locals() int  { return len(t.nodes[t.node]) }
func (t topology) ranks() int   { return t.first(len(t.nodes)) }
func (t topology) leader() bool { return t.local == 0 }

// piece returns the part of n elements that is a node's.
func (t topology) piece(n, node int) (from, to int) {
	all := t.ranks()
	return cut(n, t.first(node), all), cut(n, t.first(node+1), all)
}

// own returns the part of n elements that is this rank's.
func (t topology) own(n int) (from, to int) {
	all := t.ranks()
	return cut(n, t.place, all), cut(n, t.place+1, all)
}
