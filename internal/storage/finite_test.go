package storage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestNonFiniteFindsTheFirst has each kind of value at each place of small tensors, and at
// some of large ones, among the largest and smallest that are finite.
func TestNonFiniteFindsTheFirst(t *testing.T) {
	dtypes := map[core.DType][]float64{
		core.Float32:  {math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0, 1},
		core.BFloat16: {0x1.fep127, -0x1.fep127, 0x1p-126, 0, 1},
		core.Float16:  {65504, -65504, 0x1p-24, 0, 1},
		core.Float64:  {math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0, 1},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for dtype, values := range dtypes {
		for _, n := range []int{1, 2, 3, 5, 8, 33, 1<<16 + 3} {
			x := core.NewTensor(dtype, n)
			for i := range n {
				set(x, i, values[rng.IntN(len(values))])
			}
			if at, found := NonFinite(x); found {
				t.Errorf("%s, %d elements that are finite: one is found at %d", dtype, n, at)
			}
			for i := range n {
				if i > 40 && i < n-1 && rng.IntN(1<<12) > 0 {
					continue
				}
				for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					set(x, i, bad)
					set(x, n-1, bad)
					if at, found := NonFinite(x); !found || at != i {
						t.Errorf("%s, %d elements, %g at %d: found %v at %d", dtype, n, bad, i, found, at)
					}
				}
				set(x, i, 0)
				set(x, n-1, 0)
			}
		}
	}
	for _, x := range []core.Tensor{core.NewTensor(core.Float32, 0), core.NewTensor(core.Int8, 3),
		core.NewTensor(core.Int64, 1)} {
		for i := range x.Data {
			x.Data[i] = 0xff
		}
		if at, found := NonFinite(x); found {
			t.Errorf("%s %v: found at %d", x.DType, x.Shape, at)
		}
	}
}

func set(x core.Tensor, i int, v float64) {
	if x.DType == core.Float64 {
		x.Float64s()[i] = v
		return
	}
	x.Store([]float32{float32(v)}, i)
}

func BenchmarkNonFinite(b *testing.B) {
	for _, dtype := range []core.DType{core.Float32, core.BFloat16} {
		b.Run(fmt.Sprint(dtype), func(b *testing.B) {
			x := core.NewTensor(dtype, 256<<20/dtype.Size())
			for i := range x.Data {
				x.Data[i] = 0x3a
			}
			b.SetBytes(int64(len(x.Data)))
			for b.Loop() {
				if _, found := NonFinite(x); found {
					b.Fatal("found")
				}
			}
		})
	}
}
