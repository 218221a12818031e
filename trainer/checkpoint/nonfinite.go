package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd"
)

// NonFinite returns the index of an element that is NaN or infinite, the first of them. It
// reads each byte once, with all threads, at about the bandwidth of memory.
func NonFinite(x core.Tensor) (index int, found bool) {
	size := x.DType.Size()
	var exponent, least uint64 // of each element in a word: the exponent's bits, and the lowest of these
	switch x.DType {
	case core.Float32:
		exponent, least = 0x7f800000_7f800000, 0x00800000_00800000
	case core.BFloat16:
		exponent, least = 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080
	case core.Float16:
		exponent, least = 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
	case core.Float64:
		exponent, least = 0x7ff00000_00000000, 0x00100000_00000000
	default:
		return 0, false
	}
	const block = 1 << 13 // bytes that are looked at together
	first := atomic.Int64{}
	first.Store(int64(len(x.Data)))
	simd.Parallel((len(x.Data)+block-1)/block, 16, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			part := x.Data[b*block : min((b+1)*block, len(x.Data))]
			if !overflows(part, exponent, least) {
				continue
			}
			at := int64(b*block + firstIn(part, exponent, least)/size*size)
			for was := first.Load(); at < was && !first.CompareAndSwap(was, at); was = first.Load() {
			}
			return
		}
	})
	at := int(first.Load())
	return at / size, at < len(x.Data)
}

// overflows reports whether an exponent of the elements is all ones: then adding one to it
// reaches the bit of the sign, which is masked out before.
func overflows(part []byte, exponent, least uint64) bool {
	sign := (exponent + least) &^ exponent
	var a, b, c, d uint64
	for ; len(part) >= 32; part = part[32:] {
		p := part[:32:32]
		a |= binary.LittleEndian.Uint64(p)&exponent + least
		b |= binary.LittleEndian.Uint64(p[8:])&exponent + least
		c |= binary.LittleEndian.Uint64(p[16:])&exponent + least
		d |= binary.LittleEndian.Uint64(p[24:])&exponent + least
	}
	for len(part) > 0 {
		var word [8]byte
		n := copy(word[:], part)
		a |= binary.LittleEndian.Uint64(word[:])&exponent + least
		part = part[n:]
	}
	return (a|b|c|d)&sign != 0
}

// firstIn returns the byte where the first such element is found, or a later one of it.
func firstIn(part []byte, exponent, least uint64) int {
	sign := (exponent + least) &^ exponent
	for at := 0; ; at += 8 {
		var word [8]byte
		copy(word[:], part[at:])
		if hit := (binary.LittleEndian.Uint64(word[:])&exponent + least) & sign; hit != 0 {
			return at + bits.TrailingZeros64(hit)/8
		}
	}
}

// CheckFinite refuses a tensor with an element that is NaN or infinite: no training gets rid
// of one, and every loss would be spoiled.
func CheckFinite(name string, t core.Tensor) error {
	at, found := NonFinite(t)
	if !found {
		return nil
	}
	var value [1]float32
	vector.Load(value[:], t, at)
	index := make([]int, len(t.Shape))
	for axis := len(t.Shape) - 1; axis >= 0; axis-- {
		index[axis], at = at%t.Shape[axis], at/t.Shape[axis]
	}
	return fmt.Errorf("tensor %s has the value %g at %v: the file is damaged, or was saved by a training that "+
		"diverged; take another copy, or an earlier checkpoint", name, value[0], index)
}
