package hugepage

import (
	"math"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/simd"
)

func floats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }

// sources are the kinds of memory to compare.
func sources(b *testing.B) map[string]func(n int) []float32 {
	r := shm.NewPool("bench", 1<<32, shm.HostOnly, shm.New)
	b.Cleanup(func() { r.Close() })
	m := &Memory{}
	from := func(alloc func(int) ([]byte, error), free func([]byte)) func(n int) []float32 {
		return func(n int) []float32 {
			x, err := alloc(4 * n)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { free(x) })
			f := floats(x)
			for i := range f {
				f[i] = float32(math.Sin(float64(i)))
			}
			return f
		}
	}
	return map[string]func(n int) []float32{
		"heap":   func(n int) []float32 { return make([]float32, n) },
		"shared": from(r.Alloc, func([]byte) {}),
		"huge":   from(m.Alloc, m.Free),
	}
}

// BenchmarkAdamW is a step over 50 million parameters; only the moments change their pages.
func BenchmarkAdamW(b *testing.B) {
	const n = 50_000_000
	for _, name := range []string{"heap", "shared", "huge"} {
		b.Run("moments="+name, func(b *testing.B) {
			s := sources(b)
			p, g := s["shared"](n), s["shared"](n)
			m, v := s[name](n), s[name](n)
			for i := range v {
				v[i] = 1
				m[i] = 0
			}
			step := simd.AdamWStep{Scale: 1, Keep: 1, Beta1: 0.9, New1: 0.1, Beta2: 0.999, New2: 0.001, Step: 1e-5,
				Eps: 1e-8}
			b.SetBytes(7 * 4 * n)
			for b.Loop() {
				simd.Parallel(n, 1<<13, func(lo, hi int) { step.Update(p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi]) })
			}
		})
	}
}

// BenchmarkGemm shows that a product, which packs its operands, does not care.
func BenchmarkGemm(b *testing.B) {
	const m, n, k = 1024, 1024, 4096
	for _, name := range []string{"heap", "shared", "huge"} {
		b.Run("operands="+name, func(b *testing.B) {
			s := sources(b)
			x, y, z := s[name](m*k), s[name](n*k), s[name](m*n)
			for b.Loop() {
				simd.Multiply(simd.Product{M: m, N: n, K: k, A: simd.Matrix{Data: x, Stride: k},
					B: simd.Matrix{Data: y, Stride: k}, TransB: true, C: z, StrideC: n})
			}
			b.ReportMetric(2*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
