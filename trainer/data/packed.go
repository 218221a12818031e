package data

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Packed lays examples of a Store into rows: it knows which piece of which example lies
// where, and reads the tokens when a row is asked for. It takes about 12 bytes an example
// and 4 a row.
//
// Add examples with Concat, BestFit and Single, in any mixture.
type Packed struct {
	store  *Store
	seq    int
	pad    int32
	pieces []piece
	starts []int32 // the first piece of each row, and the end of the last
}

// piece is a part of an example.
type piece struct{ example, from, n int32 }

// NewPacked returns rows of seq tokens without any in it. The rest of a row is filled up
// with pad; what that is does not matter to training, but it must be in the vocabulary.
// None means 0.
func NewPacked(store *Store, seq int, pad int32) (*Packed, error) {
	if seq < 2 {
		return nil, fmt.Errorf("data: a row of %d tokens has nothing to predict; use a sequence length of 2 or more", seq)
	}
	return &Packed{store: store, seq: seq, pad: max(pad, 0), starts: []int32{0}}, nil
}

// Len returns the number of rows.
func (p *Packed) Len() int { return len(p.starts) - 1 }

// Row reads row i.
func (p *Packed) Row(i int) (Row, error) {
	r := newRow(p.seq)
	pieces, label := p.pieces[p.starts[i]:p.starts[i+1]], Ignore // that of the next place
	for k, piece := range pieces {
		tokens, err := p.store.read(int(piece.example), int(piece.from), int(piece.n))
		if err != nil {
			return Row{}, err
		}
		common := int32(0)
		if pair := p.store.pair(int(piece.example)); pair != nil {
			role := pair.roles[1]
			if piece.from < pair.first {
				role, common = pair.roles[0], piece.from
			}
			r.Roles = append(r.Roles, role)
		}
		if common > 0 {
			label = r.fork(tokens, int32(k+1), common)
			if r.Forks == nil {
				r.Forks = make([]int32, len(pieces))
			}
			r.Forks[k] = common
		} else {
			r.add(tokens, int32(k+1), label)
			label = Ignore
		}
	}
	r.fill(p.pad)
	return r, nil
}

func (p *Packed) examples(i int) (all []int) {
	for _, piece := range p.pieces[p.starts[i]:p.starts[i+1]] {
		all = append(all, int(piece.example))
	}
	return all
}

// Concat lays examples end to end and cuts the result into rows. An example that meets the
// end of a row goes on in the next one, as a part of its own that cannot see the first. A
// row without anything to predict is left out: one whose parts are single tokens.
func (p *Packed) Concat(examples []int) {
	room := p.seq
	for _, e := range examples {
		for from, n := 0, p.store.Tokens(e); from < n; {
			if room == 0 {
				p.endRow()
				room = p.seq
			}
			take := min(n-from, room)
			p.pieces = append(p.pieces, piece{int32(e), int32(from), int32(take)})
			from += take
			room -= take
		}
	}
	p.endRow()
}

// endRow makes a row of the pieces after the last row, unless they teach nothing.
func (p *Packed) endRow() {
	start := p.starts[len(p.starts)-1]
	for _, piece := range p.pieces[start:] {
		if piece.n > 1 {
			p.starts = append(p.starts, int32(len(p.pieces)))
			return
		}
	}
	p.pieces = p.pieces[:start]
}

// Single gives each example a row of its own, or several if it is longer than a row and has not two
// answers.
func (p *Packed) Single(examples []int) {
	for i, e := range examples {
		if p.store.pair(e) == nil {
			p.Concat(examples[i : i+1])
			continue
		}
		p.whole(e)
		p.endRow()
	}
}

// whole adds as much of an example as a row takes. Two answers are two pieces, of which the first has what is its own
// if a row takes both.
func (p *Packed) whole(e int) {
	n, pair, common := int32(min(p.store.Tokens(e), p.seq)), p.store.pair(e), int32(0)
	if pair != nil && p.store.Places(e) <= p.seq {
		n, common = int32(p.store.Tokens(e)), pair.common
	}
	if pair != nil && pair.first < n {
		p.pieces = append(p.pieces, piece{int32(e), common, pair.first - common},
			piece{int32(e), pair.first, n - pair.first})
		return
	}
	p.pieces = append(p.pieces, piece{int32(e), 0, n})
}

// BestFit lays whole examples into rows so that few places stay empty: the longest first,
// each into the row with the least room that it fits in (best-fit decreasing). Of an example
// longer than a row only the beginning is used.
func (p *Packed) BestFit(examples []int) {
	length := func(e int) int { return min(p.store.Places(e), p.seq) }
	places := make([]int32, len(examples))
	for i := range places {
		places[i] = int32(i)
	}
	slices.SortStableFunc(places, func(i, k int32) int { return length(examples[k]) - length(examples[i]) })
	bins := &bins{seq: p.seq, byRoom: make([][]int32, p.seq+1), has: make([]uint64, p.seq/64+1)}
	bin := make([]int32, len(examples)) // of each example
	for _, i := range places {
		bin[i] = bins.place(length(examples[i]))
	}
	slices.Sort(places) // the examples of one bin come in their own order
	slices.SortStableFunc(places, func(i, k int32) int { return int(bin[i] - bin[k]) })
	for k, i := range places {
		if k > 0 && bin[i] != bin[places[k-1]] {
			p.endRow()
		}
		p.whole(examples[i])
	}
	p.endRow()
}

// bins are rows being filled, found by the room that they have left.
type bins struct {
	n      int       // how many there are
	seq    int       // the room of an empty one
	byRoom [][]int32 // the bins with each room
	has    []uint64  // a bit for each room that some bin has
}

// place finds the fullest bin with room for n tokens, or else a new one, and fills it.
func (b *bins) place(n int) int32 {
	room := b.least(n)
	bin := int32(b.n)
	if room < 0 {
		b.n++
		room = b.seq
	} else {
		last := len(b.byRoom[room]) - 1
		bin = b.byRoom[room][last]
		if b.byRoom[room] = b.byRoom[room][:last]; last == 0 {
			b.has[room/64] &^= 1 << (room % 64)
		}
	}
	room -= n
	b.byRoom[room] = append(b.byRoom[room], bin)
	b.has[room/64] |= 1 << (room % 64)
	return bin
}

// least returns the least room of any bin that is n or more; -1 if there is none.
func (b *bins) least(n int) int {
	for w := n / 64; w < len(b.has); w++ {
		word := b.has[w]
		if w == n/64 {
			word &= ^uint64(0) << (n % 64)
		}
		if word != 0 {
			return 64*w + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// Pack lays documents into rows as Packed.Concat does, in memory; all tokens are learned.
// It is an error if seq is below 2 or no row has anything to predict.
func Pack(docs [][]int32, seq int, pad int32) ([]Row, error) {
	store := &Store{limit: int(^uint(0) >> 1)} // all of it is in memory already
	all := make([]int, len(docs))
	for i, ids := range docs {
		if err := store.Add(ids, nil); err != nil {
			return nil, err
		}
		all[i] = i
	}
	p, err := NewPacked(store, seq, pad)
	if err != nil {
		return nil, err
	}
	p.Concat(all)
	if p.Len() == 0 {
		return nil, errors.New("data: the documents are too short to learn from: none has two tokens in a row")
	}
	rows := make([]Row, p.Len())
	for i := range rows {
		if rows[i], err = p.Row(i); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
