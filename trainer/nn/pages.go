package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
)

// pages are the keys and values of one layer, [blocks, size, heads, C] each.
type pages struct {
	mem          core.Memory // of block
	block        []byte
	keys, values []float32
	width        int // heads*C: of one token
}

// grow makes room for more blocks, in memory that may be another, and keeps the first n.
func (l *pages) grow(mem core.Memory, n, blocks, size int) error {
	old, shape := *l, core.Shape{2, blocks, size, l.width}
	bytes, err := bytesOf(core.Float32, shape)
	if err == nil {
		l.block, err = mem.Alloc(bytes)
	}
	if err != nil {
		l.block = old.block
		return fmt.Errorf("nn: cache of %d blocks of %d tokens: %w", blocks, size, err)
	}
	both := core.Tensor{DType: core.Float32, Shape: shape, Data: l.block}.Float32s()
	l.keys, l.values = both[:len(both)/2], both[len(both)/2:]
	l.mem = mem
	if old.block == nil {
		return nil
	}
	copy(l.keys, old.keys[:n*size*l.width])
	copy(l.values, old.values[:n*size*l.width])
	old.mem.Free(old.block)
	return nil
}

// tensors returns keys and values, [blocks, size, heads, C] each.
func (l *pages) tensors(size, heads int) (keys, values core.Tensor) {
	n := len(l.block) / 2
	shape := core.Shape{len(l.keys) / (size * l.width), size, heads, l.width / heads}
	return core.Tensor{DType: core.Float32, Shape: shape, Data: l.block[:n:n]},
		core.Tensor{DType: core.Float32, Shape: shape, Data: l.block[n : 2*n : 2*n]}
}

// at returns where in keys and values those of token j of a sequence begin.
func (l *pages) at(s *Sequence, j int) int {
	size := s.cache.size
	return (int(s.table[j/size])*size + j%size) * l.width
}

// runs calls f for tokens [lo, hi) of a sequence: n of them lie one after the other, where is the first, which is
// number j from lo. Blocks that follow each other are one run.
func (l *pages) runs(s *Sequence, lo, hi int, f func(j, where, n int)) {
	size := s.cache.size
	for j := lo; j < hi; {
		block := j / size
		end := (block + 1) * size
		for end < hi && s.table[block+1] == s.table[block]+1 {
			block, end = block+1, end+size
		}
		end = min(end, hi)
		f(j-lo, l.at(s, j), end-j)
		j = end
	}
}

// put stores keys or values of tokens that follow those of a sequence, x [n, heads*C].
func (l *pages) put(dst []float32, s *Sequence, n int, x []float32) {
	for t := range n {
		copy(dst[l.at(s, s.Len()+t):][:l.width], x[t*l.width:])
	}
}
