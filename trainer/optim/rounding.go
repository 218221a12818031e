package optim

import (
	"hash/fnv"
	"math"
)

// rounding rounds one parameter to bfloat16 after one step: up or down at random, the likelier the nearer, so
// that updates smaller than a unit of the last place are not lost on average. The random numbers are a
// function of the seed, the step, the parameter's name and the element, so that a run that is resumed has the
// same ones.
type rounding struct{ key uint64 }

func newRounding(seed uint64, step int, name string) rounding {
	h := fnv.New64a()
	h.Write([]byte(name)) // a hash never fails
	return rounding{mix(mix(seed+uint64(step)*golden64) ^ h.Sum64())}
}

// golden64 and mix are the counter and the function of Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators" (2014), as in SplitMix64.
const golden64 = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// store rounds the elements of the parameter from the given one on, which is a multiple of 4: each word of
// random bits is for four.
func (r rounding) store(dst []uint16, src []float32, from int) {
	var random uint64
	for i, x := range src {
		if i%4 == 0 {
			random = mix(r.key + uint64((from+i)/4+1)*golden64)
		}
		bits := math.Float32bits(x)
		up := bits + uint32(random&0xffff)
		if random >>= 16; up&infinite == infinite { // the largest numbers stay finite
			up = bits
		}
		dst[i] = uint16(up >> 16)
	}
}

// infinite has the exponent's bits.
const infinite = 0x7f800000
