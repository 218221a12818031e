package simd

import "math"

// Codes are 256 numbers between -1 and 1 that stand for others, each by one byte: the dynamic
// map of Dettmers, "8-Bit Approximations for Parallelism in Deep Learning" (2016), and of
// bitsandbytes. They have seven decades, of which each larger one has twice as many of them, evenly
// spaced, and 0 and 1 besides; of those with a sign, half are negative.
type Codes struct {
	Values [256]float32 // ascending
	zero   int32        // the index of 0: 127 with a sign, otherwise 0
	// Of the values from 0 on, by their distance from 0: for the upper halves of the bits of a number, from
	// lowKey on, the lowest byte is how many borders between neighbours are below all numbers with these. No two
	// borders share upper halves: above the byte is the lower half of the one that has these, beyond which a number
	// is one more, or a half that no number exceeds.
	least [highKey - lowKey + 1]uint32
}

// The upper halves of 2^-24, which is below every border, and of 1.
const lowKey, highKey = 0x3380, 0x3f80

// NewCodes returns the map with a sign, or that for numbers from 0 to 1.
func NewCodes(signed bool) *Codes {
	c := &Codes{}
	positive := []float32{0}
	for decade := range 7 {
		n := 1 << decade
		if !signed {
			n *= 2
		}
		size := math.Pow10(decade - 6)
		for i := range n {
			positive = append(positive, float32(size*(0.1+0.9*(float64(i)+0.5)/float64(n))))
		}
	}
	positive = append(positive, 1)
	c.zero = int32(256 - len(positive))
	copy(c.Values[c.zero:], positive)
	for i := range c.zero {
		c.Values[c.zero-1-i] = -positive[i+1]
	}
	passed := 0
	for key := range c.least {
		c.least[key] = 0xffff<<8 | uint32(passed)
		if passed+1 == len(positive) {
			continue
		}
		border := math.Float32bits(below((float64(positive[passed]) + float64(positive[passed+1])) / 2))
		if border>>16 == uint32(key+lowKey) {
			c.least[key] = border&0xffff<<8 | uint32(passed)
			passed++
		}
	}
	return c
}

// below returns the largest float32 that is not above x.
func below(x float64) float32 {
	f := float32(x)
	if float64(f) > x {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// Decode writes what codes stand for, times scale: dst[i] = scale * Values[src[i]].
func (c *Codes) Decode(dst []float32, src []uint8, scale float32) {
	same(len(dst), len(src))
	decode, n := active.decodeSigned, 0
	if c.zero == 0 {
		decode = active.decodeUnsigned
	}
	if decode != nil {
		n = len(dst) &^ 15
		decode(dst[:n], src[:n], scale)
	}
	dst, src = dst[n:], src[n:]
	for i, code := range src {
		dst[i] = scale * c.Values[code]
	}
}

// Encode writes the codes that are nearest to x[i] times 1 / scale, the one nearer to 0 of two that are as near.
// Where 0 is the nearest to a negative number it takes the code below, so that the sign stays. With a
// scale of 0 all are 0.
func (c *Codes) Encode(dst []uint8, x []float32, scale float32) {
	same(len(dst), len(x))
	const smallest = 0x1p-120 // whose reciprocal is a number
	if scale < smallest {
		for i, v := range x {
			if dst[i] = uint8(c.zero); scale > 0 {
				dst[i] = c.nearest(v / scale)
			}
		}
		return
	}
	encode, n, by := active.encodeSigned, 0, 1/scale
	if c.zero == 0 {
		encode = active.encodeUnsigned
	}
	if encode != nil {
		n = len(dst) &^ 15
		encode(dst[:n], x[:n], &c.least[0], by)
	}
	dst, x = dst[n:], x[n:]
	for i, v := range x {
		dst[i] = c.nearest(float32(by * v))
	}
}

// nearest returns the code of a number between -1 and 1.
func (c *Codes) nearest(v float32) uint8 {
	bits := math.Float32bits(v) &^ (1 << 31)
	least := c.least[min(max(bits>>16, lowKey), highKey)-lowKey]
	n := int32(least & 0xff)
	if bits&0xffff > least>>8 {
		n++
	}
	if v < 0 {
		return uint8(c.zero - min(max(n, 1), c.zero))
	}
	return uint8(c.zero + n)
}

// MaxAbs returns the largest magnitude, 0 of none.
func MaxAbs(x []float32) float32 { return active.maxAbs(x) }

func maxAbsGeneric(x []float32) float32 {
	m := float32(0)
	for _, v := range x {
		m = max(m, float32(math.Abs(float64(v))))
	}
	return m
}
