package vector_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// TestAgreesWithCore compares with core's conversions, bit by bit, at every offset and
// length that vectors may begin and end at.
func TestAgreesWithCore(t *testing.T) {
	const n = 131
	rng := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64()) * float32(math.Exp(20*rng.NormFloat64()))
	}
	v[3], v[40], v[77] = float32(math.Inf(1)), 0, -1e-41
	for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16} {
		for from := range 20 {
			for _, length := range []int{0, 1, 15, 16, 33, n - from} {
				want, got := core.NewTensor(d, n), core.NewTensor(d, n)
				want.Store(v[:length], from)
				vector.Store(got, v[:length], from)
				if string(got.Data) != string(want.Data) {
					t.Fatalf("%s: Store of %d elements at %d differs", d, length, from)
				}
				a, b, rounded := make([]float32, length), make([]float32, length), append([]float32(nil), v[:length]...)
				want.Load(a, from)
				vector.Load(b, want, from)
				vector.Round(rounded, d, make([]uint16, n))
				for i := range a {
					if math.Float32bits(a[i]) != math.Float32bits(b[i]) || math.Float32bits(a[i]) != math.Float32bits(rounded[i]) {
						t.Fatalf("%s: element %d: %v, Load gives %v and Round %v", d, i, a[i], b[i], rounded[i])
					}
				}
			}
		}
	}
}

// TestMatricesAreWidened as tensors are, from any element on, where rows lie apart and where they do not.
func TestMatricesAreWidened(t *testing.T) {
	const rows, cols = 5, 7
	for _, stride := range []int{cols, cols + 2} {
		for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8} {
			want := make([]float32, rows*cols)
			x := core.NewTensor(d, rows, stride)
			scale := []float32{1, 2, 3, 4, 5}
			for i := range rows * stride {
				v := float32(i - 12)
				if d == core.Int8 {
					x.Int8s()[i] = int8(i - 12)
					v *= scale[i/stride]
				} else {
					x.Store([]float32{v}, i)
				}
				if c := i % stride; c < cols {
					want[i/stride*cols+c] = v
				}
			}
			var m vector.Matrix
			if d == core.Int8 {
				m = vector.Matrix{Int8: x.Int8s(), Scale: scale, Stride: stride}
			} else {
				m = vector.MatrixOf(x)
			}
			for from := range want {
				got := make([]float32, len(want)-from)
				m.Load(got, cols, from)
				if !slices.Equal(got, want[from:]) {
					t.Errorf("%s, stride %d, from %d: %v, want %v", d, stride, from, got, want[from:])
				}
			}
		}
	}
}
