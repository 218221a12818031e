package optim

import (
	"hash/fnv"

	"github.com/seed98097648/tune/internal/simd"
)

// rounding rounds one parameter to bfloat16 after one step: up or down at random, the likelier the nearer, so
// that updates smaller than a unit of the last place are not lost on average. The random numbers are a
// function of the seed, the step, the parameter's name and the element, so that a run that is resumed has the
// same ones.
type rounding struct{ key uint32 }

func newRounding(seed uint64, step int, name string) rounding {
	h := fnv.New64a()
	h.Write([]byte(name)) // a hash never fails
	return rounding{uint32(mix(mix(seed+uint64(step)*golden64)^h.Sum64()) >> 32)}
}

// golden64 and mix are the counter and the function of Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators" (2014), as in SplitMix64.
const golden64 = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// store rounds the elements of the parameter from the given one on.
func (r rounding) store(dst []uint16, src []float32, from int) {
	simd.RoundRandomly(dst, src, r.key, uint32(from))
}
