package core_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// halfFormat is a half-precision format, with its value computed from the definition.
type halfFormat struct {
	name         string
	dtype        core.DType
	exponentBits int
	mantissaBits int
	widen        func(uint16) float32
	narrow       func(float32) uint16
}

func halfFormats() []halfFormat {
	return []halfFormat{
		{"bfloat16", core.BFloat16, 8, 7, core.BFloat16ToFloat32, core.Float32ToBFloat16},
		{"float16", core.Float16, 5, 10, core.Float16ToFloat32, core.Float32ToFloat16},
	}
}

// infinity is the bit pattern of +Inf; finite positive numbers are all those below.
func (h halfFormat) infinity() uint16 { return uint16(1<<h.exponentBits-1) << h.mantissaBits }

// value computes what a pattern means, in float64, from IEEE 754's definition.
func (h halfFormat) value(bits uint16) float64 {
	bias := 1<<(h.exponentBits-1) - 1
	exponent, mantissa := int(bits&0x7fff)>>h.mantissaBits, float64(bits&(1<<h.mantissaBits-1))
	v := math.Ldexp(mantissa, 1-bias-h.mantissaBits)
	switch {
	case exponent == 1<<h.exponentBits-1 && mantissa != 0:
		return math.NaN()
	case exponent == 1<<h.exponentBits-1:
		v = math.Inf(1)
	case exponent > 0:
		v = math.Ldexp(mantissa+math.Ldexp(1, h.mantissaBits), exponent-bias-h.mantissaBits)
	}
	if bits&0x8000 != 0 {
		v = -v
	}
	return v
}

func TestEveryHalfPatternWidensExactlyAndComesBack(t *testing.T) {
	for _, h := range halfFormats() {
		for i := range 1 << 16 {
			bits := uint16(i)
			wide, want := h.widen(bits), h.value(bits)
			if math.IsNaN(want) {
				if wide == wide {
					t.Fatalf("%s %#04x widens to %v, want NaN", h.name, bits, wide)
				}
				if back := h.narrow(wide); !math.IsNaN(h.value(back)) || back&0x8000 != bits&0x8000 {
					t.Fatalf("%s NaN %#04x comes back as %#04x", h.name, bits, back)
				}
				continue
			}
			if float64(wide) != want || math.Signbit(float64(wide)) != (bits&0x8000 != 0) {
				t.Fatalf("%s %#04x widens to %v, want %v", h.name, bits, wide, want)
			}
			if back := h.narrow(wide); back != bits {
				t.Fatalf("%s %#04x comes back as %#04x", h.name, bits, back)
			}
		}
	}
}

// Between each two neighbours lies a tie, which goes to the even one; the float32 just
// below it goes down, the one just above goes up. The last tie lies half a step beyond
// the largest finite number and goes to infinity.
func TestHalfRoundsToNearestEven(t *testing.T) {
	for _, h := range halfFormats() {
		for low := range h.infinity() {
			high, tie := low+1, h.tie(low)
			for _, sign := range []uint16{0, 0x8000} {
				if sign != 0 {
					tie = -tie
				}
				even := low + low&1
				if got := h.narrow(tie); got != sign|even {
					t.Fatalf("%s: tie %v goes to %#04x, want %#04x", h.name, tie, got, sign|even)
				}
				if got := h.narrow(math.Nextafter32(tie, 0)); got != sign|low {
					t.Fatalf("%s: below the tie %v goes to %#04x, want %#04x", h.name, tie, got, sign|low)
				}
				away := math.Nextafter32(tie, float32(math.Copysign(math.Inf(1), float64(tie))))
				if got := h.narrow(away); got != sign|high {
					t.Fatalf("%s: above the tie %v goes to %#04x, want %#04x", h.name, tie, got, sign|high)
				}
			}
		}
	}
}

// tie returns the exact middle between a pattern and the next: float64 has digits enough for their sum.
// What follows the largest finite number is the power of two that would come next.
func (h halfFormat) tie(low uint16) float32 {
	next := h.value(low + 1)
	if low+1 == h.infinity() {
		next = math.Ldexp(1, 1<<(h.exponentBits-1))
	}
	middle := (h.value(low) + next) / 2
	if float64(float32(middle)) != middle {
		panic(fmt.Sprintf("the tie above %#04x is no float32", low))
	}
	return float32(middle)
}

func TestHalfOverflowsToInfinity(t *testing.T) {
	for _, h := range halfFormats() {
		limit := math.Ldexp(1, 1<<(h.exponentBits-1)) // what follows the largest finite number
		for _, f := range []float32{float32(limit), float32(1.5 * limit), float32(2 * limit),
			math.MaxFloat32, float32(math.Inf(1))} {
			if got := h.narrow(f); got != h.infinity() {
				t.Errorf("%s of %v is %#04x, want infinity", h.name, f, got)
			}
			if got := h.narrow(-f); got != 0x8000|h.infinity() {
				t.Errorf("%s of %v is %#04x, want -infinity", h.name, -f, got)
			}
		}
	}
}

func TestHalfKeepsNaNs(t *testing.T) {
	for _, h := range halfFormats() {
		// The payload of the first lies in bits that narrowing drops.
		for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001} {
			got := h.narrow(math.Float32frombits(bits))
			if !math.IsNaN(h.value(got)) || got>>15 != uint16(bits>>31) {
				t.Errorf("%s of NaN %#x is %#04x", h.name, bits, got)
			}
		}
	}
}

func TestLoadAndStoreConvertTheRightElements(t *testing.T) {
	values := []float32{1, -2.5, 0.125}
	for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16, core.Float64} {
		x := core.NewTensor(d, 2, 3)
		x.Store(values, 2)
		got := make([]float32, 6)
		x.Load(got, 0)
		if want := []float32{0, 0, 1, -2.5, 0.125, 0}; !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", d, got, want)
		}
		got = got[:2]
		x.Load(got, 3)
		if want := []float32{-2.5, 0.125}; !slices.Equal(got, want) {
			t.Errorf("%s from 3 holds %v, want %v", d, got, want)
		}
	}
}
