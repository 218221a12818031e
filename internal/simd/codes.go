package simd

import "math"

// Codes are 256 numbers between -1 and 1 that stand for others, each by one byte: the dynamic
// map of Dettmers, "8-Bit Approximations for Parallelism in Deep Learning" (2016), and of
// bitsandbytes. They have seven decades, of which each larger one has twice as many of them, evenly
// spaced, and 0 and 1 besides; of those with a sign, half are negative.
type Codes struct {
	Values  [256]float32 // ascending
	zero    int32        // the index of 0: 127 with a sign, otherwise 0
	borders borders
}

// borders say which of the values from 0 on is nearest to a number, by its distance from 0. Between two decades, or
// between one and 0 or 1 at their ends, lies an edge, and within each the borders are evenly spaced but for rounding.
// The nine parts that the edges make are counted from 0, which is what has 0 nearest. Assembly knows where the fields
// lie.
type borders struct {
	// By the exponent of a number from 2^-23 to 1, but for its first and its last bit: the edge among those, which no
	// number exceeds if there is none.
	edge [16]float32
	// By the same, first of numbers up to the edge, then of those above: the line whose whole part is the code, which is
	// slope*x + start, but no more than most; all in units of 1/lineUnit, with lineNear added, since rounding takes it
	// less than that from the truth.
	slope, start, most [2][16]float32
	// Of the upper halves of the bits of a number, from lowKey on, the lowest byte is how many borders between
	// neighbours are below all numbers with these. No two borders share upper halves: above the byte is the lower half
	// of the one that has these, beyond which a number is one more, or a half that no number exceeds.
	least [highKey - lowKey + 1]uint32
}

// lineUnit and lineNear are what the fields of borders are in, and how far they may be off.
const lineUnit, lineNear = 1 << 16, 8

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
	c.borders.fill(positive, int(c.zero))
	return c
}

// fill sets the borders between neighbours of ascending values, the first of which is 0, and has the code zero.
func (b *borders) fill(values []float32, zero int) {
	signed := zero > 0
	border := func(i int) float32 { return below((float64(values[i-1]) + float64(values[i])) / 2) }
	passed := 0
	for key := range b.least {
		b.least[key] = 0xffff<<8 | uint32(passed)
		if passed+1 == len(values) {
			continue
		}
		if bits := math.Float32bits(border(passed + 1)); bits>>16 == uint32(key+lowKey) {
			b.least[key] = bits&0xffff<<8 | uint32(passed)
			passed++
		}
	}
	for i := range b.edge {
		b.edge[i] = math.MaxFloat32
	}
	for i := range 16 {
		b.line(0, i, constant(zero))
	}
	// edge begins a part above a border.
	edge := func(at int, l line) {
		exponent := int(math.Float32bits(border(at)) >> 24 & 15)
		b.edge[exponent] = border(at)
		b.line(1, exponent, l)
		for i := exponent + 1; i < 16; i++ {
			b.line(0, i, l)
		}
	}
	first := 1
	for decade := range 7 {
		n := 1 << decade
		if !signed {
			n *= 2
		}
		edge(first, line{
			slope: float64(float64(n) / 9 * math.Pow10(7-decade)),
			start: float64(zero+first) - float64(n)/9,
			most:  float64(zero+first+n) - 0.5,
		})
		first += n
	}
	edge(first, constant(zero+first))
}

// line is slope*x + start, but no more than most.
type line struct{ slope, start, most float64 }

// constant makes all numbers of a part have one code.
func constant(code int) line { return line{0, float64(code) + 0.5, float64(code) + 0.5} }

// line sets that of one exponent, up to its edge or, with side 1, above.
func (b *borders) line(side, exponent int, l line) {
	b.slope[side][exponent] = float32(lineUnit * l.slope)
	b.start[side][exponent] = float32(float64(lineUnit*l.start) + lineNear)
	b.most[side][exponent] = float32(lineUnit * l.most)
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

// CodeBlock is how many elements share the number that their codes are multiplied by.
const CodeBlock = 256

// blocks returns how many blocks n elements are.
func blocks(n int) int { return (n + CodeBlock - 1) / CodeBlock }

// Encode writes the codes that are nearest to x[i] divided by the scale of its block, the one nearer to 0 of two that are
// as near. Where 0 is the nearest to a negative number it takes the code below, so that the sign stays. With a
// scale of 0 all are 0.
func (c *Codes) Encode(dst []uint8, x, scales []float32) {
	same(len(dst), len(x))
	same(blocks(len(x)), len(scales))
	encode := active.encodeSigned
	if c.zero == 0 {
		encode = active.encodeUnsigned
	}
	for len(scales) > 0 {
		fit := normal(scales)
		if fit == 0 {
			n := min(CodeBlock, len(x))
			c.encodeSmall(dst[:n], x, scales[0])
			dst, x, scales = dst[n:], x[n:], scales[1:]
			continue
		}
		n, done := min(fit*CodeBlock, len(x)), 0
		if encode != nil {
			done = n &^ 15
			encode(dst[:done], x[:done], &c.borders.edge[0], scales[:fit])
		}
		for i := done; i < n; i++ {
			dst[i] = c.nearest(float32(1 / scales[i/CodeBlock] * x[i]))
		}
		dst, x, scales = dst[n:], x[n:], scales[fit:]
	}
}

// normal returns how many scales there are before the first whose reciprocal is no number.
func normal(scales []float32) int {
	const smallest = 0x1p-120
	for i, s := range scales {
		if s < smallest {
			return i
		}
	}
	return len(scales)
}

// encodeSmall writes the codes of a block whose scale has no reciprocal.
func (c *Codes) encodeSmall(dst []uint8, x []float32, scale float32) {
	if scale == 0 {
		for i := range dst {
			dst[i] = uint8(c.zero)
		}
		return
	}
	for i := range dst {
		dst[i] = c.nearest(x[i] / scale)
	}
}

// nearest returns the code of a number between -1 and 1.
func (c *Codes) nearest(v float32) uint8 {
	bits := math.Float32bits(v) &^ (1 << 31)
	least := c.borders.least[min(max(bits>>16, lowKey), highKey)-lowKey]
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
