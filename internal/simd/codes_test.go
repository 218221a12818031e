package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// nearestCode looks at all values, with the rule for negative numbers near 0.
func nearestCode(c *Codes, x float32) (least, most uint8) {
	best := math.Inf(1)
	for i, v := range c.Values {
		switch d := math.Abs(float64(x) - float64(v)); {
		case d < best:
			best, least, most = d, uint8(i), uint8(i)
		case d == best:
			most = uint8(i)
		}
	}
	if x < 0 && int32(least) == c.zero && c.zero > 0 {
		least, most = least-1, least-1
	}
	return least, most
}

func codesOf(signed bool, n int) (c *Codes, x []float32) {
	c = NewCodes(signed)
	rng := rand.New(rand.NewPCG(3, 1))
	for range n {
		v := float32(math.Pow(10, -8*rng.Float64()))
		if signed && rng.IntN(2) == 0 {
			v = -v
		}
		x = append(x, v)
	}
	x[0], x[1], x[2] = 0, 1, c.Values[0]
	for i := range min(n-3, 254) { // borders, and what is just above
		border := c.Values[i+1]/2 + c.Values[i+2]/2
		if x[i+3] = border; i%2 == 0 {
			x[i+3] = math.Nextafter32(border, 2)
		}
	}
	return c, x
}

// everyBlock returns one scale for all blocks of n elements.
func everyBlock(n int, scale float32) []float32 { return slices.Repeat([]float32{scale}, blocks(n)) }

func TestEncodeTakesTheNearestCode(t *testing.T) { eachVariant(t, encodeTakesTheNearestCode) }

func encodeTakesTheNearestCode(t *testing.T) {
	for _, signed := range []bool{true, false} {
		c, x := codesOf(signed, 5000)
		const scale = 0.25
		got, scaled := guarded(t, make([]uint8, len(x))), guarded(t, x)
		for i, v := range x {
			scaled[i] = scale * v
		}
		c.Encode(got, scaled, everyBlock(len(got), scale))
		for i, v := range x {
			if least, most := nearestCode(c, v); got[i] < least || got[i] > most {
				t.Errorf("signed %t: the code of %g is %d, want %d to %d", signed, v, got[i], least, most)
			}
		}
	}
}

func TestEncodeIsExactAroundEveryBorder(t *testing.T) { eachVariant(t, encodeIsExactAroundEveryBorder) }

// encodeIsExactAroundEveryBorder takes so many numbers on either side of a border that the first and the last of them
// are not near to it.
func encodeIsExactAroundEveryBorder(t *testing.T) {
	const around = 2048
	x, got := guarded(t, make([]float32, 2*around)), guarded(t, make([]uint8, 2*around))
	for _, signed := range []bool{true, false} {
		c := NewCodes(signed)
		for i, v := range c.Values[1:] {
			border := c.Values[i]/2 + v/2
			for k := range x {
				x[k] = math.Float32frombits(math.Float32bits(border) + uint32(k) - around)
			}
			c.Encode(got, x, everyBlock(len(x), 1))
			for k, v := range x {
				if want := c.nearest(v); got[k] != want {
					t.Fatalf("signed %t: the code of %g is %d, want %d", signed, v, got[k], want)
				}
			}
		}
	}
}

func TestValuesComeBackFromTheirCodes(t *testing.T) { eachVariant(t, valuesComeBackFromTheirCodes) }

func valuesComeBackFromTheirCodes(t *testing.T) {
	for _, signed := range []bool{true, false} {
		c := NewCodes(signed)
		for n := range 40 {
			values := c.Values[n*256/40:]
			codes, back := guarded(t, make([]uint8, len(values))), guarded(t, values)
			c.Encode(codes, guarded(t, values), everyBlock(len(codes), 1))
			c.Decode(back, codes, 2)
			for i, v := range values {
				if back[i] != 2*v {
					t.Errorf("signed %t: %g comes back as %g", signed, v, back[i]/2)
				}
			}
		}
	}
}

func TestEveryCodeStandsForItsValueInEveryVariant(t *testing.T) {
	eachVariant(t, everyCodeStandsForItsValue)
}

func everyCodeStandsForItsValue(t *testing.T) {
	for _, signed := range []bool{true, false} {
		c := NewCodes(signed)
		for _, scale := range []float32{1, 0.3, 1e-30, 0} {
			codes := guarded(t, make([]uint8, 256))
			for i := range codes {
				codes[i] = uint8(i)
			}
			got := guarded(t, make([]float32, 256))
			c.Decode(got, codes, scale)
			for i, v := range got {
				if want := scale * c.Values[i]; math.Float32bits(v) != math.Float32bits(want) {
					t.Errorf("signed %t: code %d times %g is %g, want %g", signed, i, scale, v, want)
				}
			}
		}
	}
}

func TestNothingIsEncodedByZero(t *testing.T) { eachVariant(t, nothingIsEncodedByZero) }

func nothingIsEncodedByZero(t *testing.T) {
	c := NewCodes(true)
	codes, back := make([]uint8, 20), make([]float32, 20)
	c.Encode(codes, make([]float32, 20), []float32{0})
	if c.Decode(back, codes, 0); back[0] != 0 || back[19] != 0 {
		t.Errorf("a block of zeros comes back as %v", back)
	}
}

func TestMaxAbsLooksAtBothSigns(t *testing.T) { eachVariant(t, maxAbsLooksAtBothSigns) }

func maxAbsLooksAtBothSigns(t *testing.T) {
	for n := range 70 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		if want := min(float32(n), 1) * 3; MaxAbs(guarded(t, x)) != want { // the first is -3
			t.Errorf("of %d elements it is %g, want %g", n, MaxAbs(x), want)
		}
	}
}

func TestRoundRandomlyIsTheSameInEveryVariant(t *testing.T) {
	_, x := codesOf(true, 331)
	x[5], x[6], x[7] = math.MaxFloat32, -math.MaxFloat32, 0
	want := make([]uint16, len(x))
	for i, v := range x {
		want[i] = roundAt(v, 77, uint32(1000+i))
	}
	eachVariant(t, func(t *testing.T) {
		got := guarded(t, make([]uint16, len(x)))
		RoundRandomly(got, guarded(t, x), 77, 1000)
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("element %d, %g, is %#x, want %#x", i, x[i], got[i], want[i])
			}
		}
	})
}
