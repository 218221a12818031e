package optim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/internal/simd"
)

// BenchmarkUpdate takes a parameter that is in the caches, on one thread, so that it says what an update computes
// and not what it waits for.
func BenchmarkUpdate(b *testing.B) {
	simd.SetThreads(1)
	defer simd.SetThreads(0)
	const n = 1 << 17
	for _, kind := range []Kind{AdamW, AdamW8} {
		for _, half := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/half=%t", kind, half), func(b *testing.B) {
				p := randomParam(1, n)
				if half {
					p.Shape, p.Half, p.Value = []int{n}, make([]uint16, n), nil
				}
				c := DefaultConfig()
				c.Kind = kind
				o, err := New(c, []Param{p}, nil)
				if err != nil {
					b.Fatal(err)
				}
				grads := make([][]float32, 8) // of several steps: moments of one gradient only have but few codes
				rng := rand.New(rand.NewPCG(1, 2))
				for i := range grads {
					grads[i] = make([]float32, n)
					for k := range grads[i] {
						grads[i][k] = float32(rng.NormFloat64())
					}
				}
				b.ReportAllocs()
				for step := 0; b.Loop(); step++ {
					o.Begin()
					o.Update(1e-3, 1, Piece{Grad: grads[step%len(grads)]})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
			})
		}
	}
}
