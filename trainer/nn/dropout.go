package nn

import (
	"hash/fnv"
	"math"

	"github.com/seed98097648/tune/internal/simd"
)

// dropout takes a share of the elements of a matrix away and makes the others larger, such
// that the mean stays. Which ones is a function of the noise, the name and the place of an
// element, not the next number of a stream: a forward pass that is computed again, or a
// run that is resumed, takes the same ones away.
type dropout struct {
	name uint64
	cut  uint64 // of 1<<16: the 16 random bits of an element that is taken away are below
	keep float32
}

func newDropout(name string, share float64) dropout {
	h := fnv.New64a()
	h.Write([]byte(name))
	cut := math.Round(share * (1 << 16))
	return dropout{h.Sum64(), uint64(cut), float32(1 / (1 - cut/(1<<16)))}
}

// mask is a dropout for one noise.
type mask struct {
	dropout
	seed uint64
}

func (d dropout) with(noise []int32) mask {
	return mask{d, mix(d.name ^ mix(uint64(uint32(noise[0]))|uint64(uint32(noise[1]))<<32))}
}

// increment is the odd number nearest to 2^64 divided by the golden ratio.
const increment = 0x9e3779b97f4a7c15

// mix is the output function of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014), whose state is a counter times increment.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// factor returns what element i is multiplied by.
func (m mask) factor(i int) float32 {
	if mix(m.seed+uint64(i>>2)*increment)>>(i&3*16)&0xffff < m.cut {
		return 0
	}
	return m.keep
}

// of makes the rows of x [T, cols] from the given one on an operand of a product, without
// what is taken away.
func (m mask) of(x []float32, row, cols int) simd.Matrix {
	out := matrixAt(x, row, cols)
	if m.cut > 0 {
		out.Load = func(dst []float32, from int) {
			for i, v := range out.Data[from : from+len(dst)] {
				dst[i] = v * m.factor(row*cols+from+i)
			}
		}
	}
	return out
}

// gradient writes the gradient of x to dx, or adds it, given that of what is left of x.
func (m mask) gradient(dx, d []float32, add bool) {
	simd.Parallel(len(d), grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			v := float32(d[i] * m.factor(i))
			if add {
				v += dx[i]
			}
			dx[i] = v
		}
	})
}

// Draw sets the noise to a function of the words: of the seed, the step and the batch
// within it, say.
func (b *Batch) Draw(words ...uint64) {
	var z uint64
	for _, w := range words {
		z = mix(z ^ mix(w+increment))
	}
	b.Noise[0], b.Noise[1] = int32(uint32(z)), int32(uint32(z>>32))
}
