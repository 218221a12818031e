package nn

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// content names what a full block holds: its tokens, and all those before them. Blocks of equal content have
// the same keys and values in every layer.
type content [sha256.Size]byte

// after names a block of these tokens behind what is named so; the zero value is the beginning of a text.
func (c content) after(tokens []int32) content {
	text := c[:]
	for _, id := range tokens {
		text = binary.LittleEndian.AppendUint32(text, uint32(id))
	}
	return sha256.Sum256(text)
}

// blocks says of each block of a cache who uses it, and what it holds.
type blocks struct {
	users []int             // how many sequences have it
	holds []content         // zero for one that is not full
	found map[content]int32 // blocks by what they hold, also such as nobody uses
	free  []int32           // nobody uses them: first such as hold nothing, then the longest unused
}

// more adds blocks that nobody uses.
func (b *blocks) more(n int) {
	added := make([]int32, n)
	for i := range added {
		added[i] = int32(len(b.users) + i)
	}
	b.free = append(added, b.free...)
	b.users, b.holds = append(b.users, make([]int, n)...), append(b.holds, make([]content, n)...)
}

// used returns how many blocks sequences have.
func (b *blocks) used() int { return len(b.users) - len(b.free) }

// idle reports whether there is a block that nobody uses and that holds nothing.
func (b *blocks) idle() bool { return len(b.free) > 0 && b.holds[b.free[0]] == content{} }

// take returns a block that nobody uses, and forgets what it held.
func (b *blocks) take() (int32, error) {
	if len(b.free) == 0 {
		return 0, ErrNoBlocks
	}
	block := b.free[0]
	b.free = b.free[1:]
	b.users[block] = 1
	b.forget(block)
	return block, nil
}

// hold adds a user to the block that holds this.
func (b *blocks) hold(c content) (block int32, ok bool) {
	if block, ok = b.found[c]; !ok {
		return 0, false
	}
	if b.users[block] == 0 {
		at := slices.Index(b.free, block)
		b.free = slices.Delete(b.free, at, at+1)
	}
	b.users[block]++
	return block, true
}

// release takes a user away. What a block holds can be found until it is taken.
func (b *blocks) release(block int32) {
	if b.users[block]--; b.users[block] > 0 {
		return
	}
	if b.holds[block] == (content{}) {
		b.free = slices.Insert(b.free, 0, block)
	} else {
		b.free = append(b.free, block)
	}
}

// fill says what a block holds, now that it is full. Another one may hold the same.
func (b *blocks) fill(block int32, c content) {
	if _, ok := b.found[c]; !ok {
		b.found[c], b.holds[block] = block, c
	}
}

// forget says that a block will be written to.
func (b *blocks) forget(block int32) {
	if c := b.holds[block]; c != (content{}) {
		delete(b.found, c)
		b.holds[block] = content{}
	}
}
