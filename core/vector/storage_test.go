package vector_test

import (
	"math"
	"math/rand/v2"
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
