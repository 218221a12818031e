package optim

import (
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// smallest is the least number of elements whose moments are in 8 bits, as in bitsandbytes.
const smallest = 4096

// adamW8 is AdamW with moments in 8 bits: Dettmers et al., "8-bit Optimizers via Block-wise
// Quantization" (2022), and bitsandbytes' AdamW8bit. Of each block of 256 elements it keeps the
// largest magnitude of either moment, and of each element the nearest of 256 numbers, times that. An update
// uses the moments as they are before they are rounded. Small parameters keep float32.
type adamW8 struct {
	adamW
	signed, unsigned *simd.Codes // of the first and the second moment
}

func newAdamW8(c Config) adamW8 { return adamW8{adamW{c}, simd.NewCodes(true), simd.NewCodes(false)} }

// The names are those of bitsandbytes' state. The codes are the bits of an unsigned byte.
func (a adamW8) keeps(p *Param) []slot {
	n := p.elems()
	if n < smallest {
		return a.adamW.keeps(p)
	}
	blocks := core.Shape{(n + block - 1) / block}
	return []slot{{"state1", core.Int8, p.shape()}, {"state2", core.Int8, p.shape()},
		{"absmax1", core.Float32, blocks}, {"absmax2", core.Float32, blocks}}
}

// moments are those of some blocks while they are updated. The first and the second are no power of two apart, or
// what is written of one would look to the processor like what is read of the other.
var moments = sync.Pool{New: func() any { return new([2][atOnce + 64]float32) }}

func (a adamW8) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	if p.elems() < smallest {
		return a.adamW.change(s, p, state)
	}
	c := a.coefficients(s)
	code1, code2, max1, max2 := state[0].Data, state[1].Data, state[2].Float32s(), state[3].Float32s()
	return func(value []float32, lo, hi int) {
		of := moments.Get().(*[2][atOnce + 64]float32)
		defer moments.Put(of)
		for at := lo; at < hi; at += atOnce {
			to := min(at+atOnce, hi)
			from, end := at/block, (to+block-1)/block
			c.Update8(value[at-lo:to-lo], p.gradient(at, to),
				simd.Moments{Codes: a.signed, Bytes: code1[at:to], Max: max1[from:end]},
				simd.Moments{Codes: a.unsigned, Bytes: code2[at:to], Max: max2[from:end]}, of[0][:to-at], of[1][:to-at])
		}
	}
}
