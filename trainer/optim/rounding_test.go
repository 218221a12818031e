package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestRoundingIsRightOnAverage: of a number a quarter of the way from one bfloat16 to the next, a quarter is
// rounded up.
func TestRoundingIsRightOnAverage(t *testing.T) {
	const n, low, high = 1 << 16, 0x3f80, 0x3f81 // 1 and the next
	src, dst, ups := make([]float32, n), make([]uint16, n), 0
	for i := range src {
		src[i] = math.Float32frombits(low<<16 | 1<<14)
	}
	newRounding(1, 2, "w").store(dst, src, 0)
	for i, d := range dst {
		if d != low && d != high {
			t.Fatalf("element %d is %#x", i, d)
		}
		if d == high {
			ups++
		}
	}
	if p := float64(ups) / n; !(math.Abs(p-0.25) <= 4*math.Sqrt(0.25*0.75/n)) {
		t.Errorf("%g are rounded up, want 0.25", p)
	}
}

func TestRoundingKeepsWhatFits(t *testing.T) {
	src := []float32{0, -1, 2, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, -0.375}
	dst := make([]uint16, len(src))
	for step := range 50 {
		newRounding(1, step, "w").store(dst, src, 0)
		want := []uint16{0, 0xbf80, 0x4000, 0x8000, 0x7f7f, 0xff7f, 0xbec0}
		if !slices.Equal(dst, want) {
			t.Fatalf("step %d: %#x, want %#x", step, dst, want)
		}
	}
}

func TestRoundingDiffersByStepNameAndSeed(t *testing.T) {
	src := make([]float32, 64)
	for i := range src {
		src[i] = math.Float32frombits(0x3f808000)
	}
	of := func(r rounding, from int) []uint16 {
		dst := make([]uint16, len(src)-from)
		r.store(dst, src[from:], from)
		return dst
	}
	base := of(newRounding(1, 1, "a"), 0)
	for name, other := range map[string]rounding{"step": newRounding(1, 2, "a"), "name": newRounding(1, 1, "b"),
		"seed": newRounding(2, 1, "a")} {
		if slices.Equal(base, of(other, 0)) {
			t.Errorf("another %s has the same roundings", name)
		}
	}
	if !slices.Equal(base[32:], of(newRounding(1, 1, "a"), 32)) {
		t.Error("an element is rounded otherwise where the rest is somewhere else")
	}
}

// TestStepsRoundDifferently: what is always rounded down would never learn.
func TestStepsRoundDifferently(t *testing.T) {
	grad := slices.Repeat([]float32{1}, 64)
	one := slices.Repeat([]uint16{0x3f80}, len(grad))
	half := slices.Clone(one)
	o := newAdamW(t, Config{Kind: SGD, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8}, Param{Name: "w", Half: half, Grad: grad})
	o.Step(0x1p-9, 1) // half a unit of what is below 1
	first := slices.Clone(half)
	copy(half, one)
	o.Step(0x1p-9, 1)
	if slices.Equal(first, one) || slices.Equal(first, half) {
		t.Errorf("two steps from 1 give %#x and %#x", first, half)
	}
}

// TestEveryOptimizerTrainsBFloat16: a step from the same values is, but for the rounding of the result, that of
// float32.
func TestEveryOptimizerTrainsBFloat16(t *testing.T) {
	each(t, func(t *testing.T, c Config, params func() []Param) {
		wide, half := params(), params()
		for i := range wide {
			rounded := core.NewTensor(core.BFloat16, len(wide[i].Value))
			rounded.Store(wide[i].Value, 0)
			rounded.Load(wide[i].Value, 0)
			half[i].Value, half[i].Half = nil, rounded.Uint16s()
		}
		c.ScaleParameter = true
		newAdamW(t, c, wide...).Step(1e-2, 1)
		newAdamW(t, c, half...).Step(1e-2, 1)
		for i := range wide {
			for k, want := range wide[i].Value {
				got := math.Float32frombits(uint32(half[i].Half[k]) << 16)
				if d := math.Abs(float64(got - want)); !(d <= math.Abs(float64(want))/128+1e-30) {
					t.Fatalf("%s[%d] is %g, want %g", wide[i].Name, k, got, want)
				}
			}
		}
	})
}
