package simd

import (
	"math"
	"testing"
)

// TestHalvesComeBack widens and narrows all 65536 numbers of both formats. A signalling
// NaN comes back quiet.
func TestHalvesComeBack(t *testing.T) {
	all, back, wide := make([]uint16, 1<<16), make([]uint16, 1<<16), make([]float32, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	for _, f := range []struct {
		name       string
		widen      func(dst []float32, src []uint16)
		narrow     func(dst []uint16, src []float32)
		inf, quiet uint16
	}{
		{"bfloat16", BFloat16ToFloat32, Float32ToBFloat16, 0x7f80, 0x40},
		{"float16", Float16ToFloat32, Float32ToFloat16, 0x7c00, 0x200},
	} {
		eachVariant(t, func(t *testing.T) {
			f.widen(wide, all)
			f.narrow(back, wide)
			for i, h := range all {
				if h&0x7fff > f.inf {
					h |= f.quiet
				}
				if back[i] != h {
					t.Fatalf("%#04x became %v and came back as %#04x", i, wide[i], back[i])
				}
			}
		}, f.name)
	}
}

// TestNarrowingRoundsToNearestEven checks numbers around every border between two
// neighbours, and the ends of the range.
func TestNarrowingRoundsToNearestEven(t *testing.T) {
	inf := float32(math.Inf(1))
	cases := []struct {
		x        float32
		bf16, fl uint16
	}{
		{1, 0x3f80, 0x3c00},
		{1 + 0x1p-8, 0x3f80, 0x3c04}, // halfway between two bfloat16: to even
		{1 + 0x1p-8 + 0x1p-20, 0x3f81, 0x3c04},
		{1 + 3*0x1p-8, 0x3f82, 0x3c0c},
		{1 + 0x1p-11, 0x3f80, 0x3c00}, // halfway between two float16
		{1 + 3*0x1p-11, 0x3f80, 0x3c02},
		{-1 - 0x1p-11 - 0x1p-23, 0xbf80, 0xbc01},
		{65519.996, 0x4780, 0x7bff},
		{65520, 0x4780, 0x7c00},
		{0x1p-24, 0x3380, 1},
		{0x1p-25, 0x3300, 0},
		{0x1p-25 + 0x1p-40, 0x3300, 1},
		{math.MaxFloat32, 0x7f80, 0x7c00},
		{-inf, 0xff80, 0xfc00},
		{math.Float32frombits(0x7f800001), 0x7fc0, 0x7e00},
		{math.Float32frombits(0xffffffff), 0xffff, 0xffff},
	}
	eachVariant(t, func(t *testing.T) {
		for n := range 40 { // in a whole vector and in the rest of one
			x := tail[float32](guardedBytes(t, 4*(n+len(cases))), n+len(cases))
			b, f := tail[uint16](guardedBytes(t, 2*len(x)), len(x)), tail[uint16](guardedBytes(t, 2*len(x)), len(x))
			for i, c := range cases {
				x[n+i] = c.x
			}
			Float32ToBFloat16(b, x)
			Float32ToFloat16(f, x)
			for i, c := range cases {
				if b[n+i] != c.bf16 || f[n+i] != c.fl {
					t.Fatalf("%v after %d others: bfloat16 %#04x, want %#04x; float16 %#04x, want %#04x", c.x, n, b[n+i], c.bf16,
						f[n+i], c.fl)
				}
			}
			back := tail[float32](guardedBytes(t, 4*len(x)), len(x))
			BFloat16ToFloat32(back, b)
			if back[n] != 1 {
				t.Errorf("1 came back from bfloat16 as %v", back[n])
			}
			Float16ToFloat32(back, f)
			if back[n] != 1 {
				t.Errorf("1 came back from float16 as %v", back[n])
			}
		}
	})
}
