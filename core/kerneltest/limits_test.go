package kerneltest_test

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestHowFarAKernelMayBe holds what is allowed to numbers: planted bugs are so far beyond it that limits of several
// times as much would find them, too, and a kernel of which a part of the digits is wrong would not be found.
func TestHowFarAKernelMayBe(t *testing.T) {
	const ulp = 0x1p-23
	tiny := float64(math.SmallestNonzeroFloat32)
	for name, tt := range map[string]struct {
		d                 core.DType // of the activations
		rows              int
		got, want, single []float64
		share             float64 // of what is allowed
	}{
		"a reference without rounding": {core.Float32, 1, []float64{1 + 3*ulp, 0.5}, []float64{1, 0.5}, []float64{1, 0.5},
			3. / 4},
		"one that is off as much": {core.Float32, 1, []float64{1 + 4*ulp, 0}, []float64{1, 0}, []float64{1 - ulp, 0},
			4. / 8},
		"elsewhere in the row":      {core.Float32, 1, []float64{1, 3 * ulp}, []float64{1, 0}, []float64{1, 0}, 3. / 4},
		"bfloat16":                  {core.BFloat16, 1, []float64{1 + 0x1p-7}, []float64{1}, []float64{1}, 1. / 2},
		"float16":                   {core.Float16, 1, []float64{1 + 0x1p-10}, []float64{1}, []float64{1}, 1. / 2},
		"by the scale of its token": {core.Float32, 2, []float64{8, 1 + 3*ulp}, []float64{8, 1}, []float64{8, 1}, 3. / 4},
		"where another token is off": {core.Float32, 2, []float64{1, 1 + ulp}, []float64{1, 1}, []float64{1 + 2*ulp, 1},
			1. / 12},
		"where another token is not known": {core.Float32, 2, []float64{1, 1 + ulp}, []float64{1, 1},
			[]float64{1 + 0x1p-6, 1}, 1. / 4},
		"the smallest numbers": {core.Float32, 1, []float64{5 * tiny}, []float64{2 * tiny}, []float64{2 * tiny}, 3. / 4},
	} {
		f32 := func(v []float64) core.Tensor {
			x := core.NewTensor(core.Float32, len(v))
			for i, e := range v {
				x.Float32s()[i] = float32(e)
			}
			return x
		}
		share := kerneltest.ShareOf(core.Facts{DType: tt.d}, f32(tt.got), f32(tt.want), f32(tt.single), tt.rows)
		if !(math.Abs(share-tt.share) <= 1e-5) {
			t.Errorf("%s: %g of what is allowed, want %g", name, share, tt.share)
		}
	}
}

// TestHowManyMayBeRoundedOtherwise: of elements in half precision a sixteenth, of those that are not small in their
// row, and of float32 with the digits of half precision a sixty-fourth; two more in each.
func TestHowManyMayBeRoundedOtherwise(t *testing.T) {
	const n, small = 160, 100
	for others, fine := range map[int]bool{12: true, 13: false} {
		want, got := core.NewTensor(core.BFloat16, n+small), core.NewTensor(core.BFloat16, n+small)
		for i := range want.Uint16s() {
			v := float32(1) / 8 // of the largest
			switch {
			case i == n-1:
				v = 1
			case i >= n:
				v = 0.12
			}
			bits := uint16(math.Float32bits(v) >> 16)
			want.Uint16s()[i], got.Uint16s()[i] = bits, bits
			if i < others || i >= n {
				got.Uint16s()[i]++
			}
		}
		if err := kerneltest.CompareRounding(got, want, want, 1, nil); (err == nil) != fine {
			t.Errorf("%d of %d elements are rounded otherwise: %v", others, n, err)
		}
		exact, coarse := core.NewTensor(core.Float32, 640), core.NewTensor(core.Float32, 640)
		for i := range exact.Float32s() {
			exact.Float32s()[i], coarse.Float32s()[i] = 1+0x1p-23, 1+0x1p-23
			if i < others {
				coarse.Float32s()[i] = 1
			}
		}
		if err := kerneltest.CompareDigits(coarse, exact, exact); (err == nil) != fine {
			t.Errorf("%d of 640 elements have few digits: %v", others, err)
		}
	}
}
