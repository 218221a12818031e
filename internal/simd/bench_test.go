package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// shapes are those of the products of small language models: rows, inner dimension,
// columns.
var shapes = [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {2048, 512, 1536}, {512, 1024, 3072}, {1024, 512, 8192},
	{64, 384, 512}, {64, 512, 384}}

func BenchmarkGemm(b *testing.B) {
	defer SetThreads(0)
	for _, s := range shapes {
		m, k, n := s[0], s[1], s[2]
		rng := rand.New(rand.NewPCG(1, 1))
		for _, f := range forms {
			p := Product{M: m, N: n, K: k, A: operand(b, rng, m, k, 0, f.transA), B: operand(b, rng, k, n, 0, f.transB),
				TransA: f.transA, TransB: f.transB, C: make([]float32, m*n), StrideC: n}
			for _, threads := range []int{1, 2} {
				eachVariant(b, func(b *testing.B) {
					SetThreads(threads)
					for b.Loop() {
						Multiply(p)
					}
					b.ReportMetric(2*p.work()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				}, fmt.Sprintf("%dx%dx%d", m, k, n), f.name, fmt.Sprintf("threads=%d", threads))
			}
		}
	}
}

// BenchmarkGroup multiplies the tokens of 32 experts, very unevenly spread, in one call.
func BenchmarkGroup(b *testing.B) {
	defer SetThreads(0)
	const in, out = 512, 384
	var group []Product
	var work float64
	for e := range 32 {
		m := 1 + e*e/4
		group = append(group, Product{M: m, N: out, K: in, A: Matrix{Data: make([]float32, m*in), Stride: in},
			B: Matrix{Data: make([]float32, out*in), Stride: in}, TransB: true, C: make([]float32, m*out), StrideC: out})
		work += group[e].work()
	}
	for _, threads := range []int{1, 2} {
		eachVariant(b, func(b *testing.B) {
			SetThreads(threads)
			for b.Loop() {
				Multiply(group...)
			}
			b.ReportMetric(2*work*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		}, fmt.Sprintf("threads=%d", threads))
	}
}

// BenchmarkVectors runs every function on slices that fit the second-level cache. The
// bytes are those of each slice once, of the ones that are written like the others.
func BenchmarkVectors(b *testing.B) {
	const n = 8192
	rng := rand.New(rand.NewPCG(1, 1))
	for _, op := range vectorOps {
		eachVariant(b, func(b *testing.B) {
			var s [][]float32
			for range op.slices {
				s = append(s, random(rng, n))
			}
			b.SetBytes(int64(4 * n * op.slices))
			for b.Loop() {
				op.run(s)
			}
		}, op.name)
	}
}

// BenchmarkOthers has the functions that BenchmarkVectors has not, or not alone.
func BenchmarkOthers(b *testing.B) {
	const n = 8192
	rng := rand.New(rand.NewPCG(1, 1))
	dst, x, cos, sin := random(rng, n), random(rng, n), random(rng, n/2), random(rng, n/2)
	eachVariant(b, func(b *testing.B) {
		for b.Loop() {
			Max(x)
		}
	}, "Max")
	eachVariant(b, func(b *testing.B) {
		for b.Loop() {
			Stream(false).RotatePairs(dst, x, cos, sin)
		}
	}, "RotatePairs")
	p, g, m, v := random(rng, n), random(rng, n), random(rng, n), make([]float32, n)
	eachVariant(b, func(b *testing.B) {
		for b.Loop() {
			step.Update(p, g, m, v)
		}
	}, "Update")
	whole := make([]int8, n)
	eachVariant(b, func(b *testing.B) {
		for b.Loop() {
			Int8ToFloat32(dst, whole, 0.1)
		}
	}, "Int8ToFloat32")
}

func BenchmarkHalves(b *testing.B) {
	const n = 8192
	wide, half := make([]float32, n), make([]uint16, n)
	for name, f := range map[string]func(){
		"BFloat16ToFloat32": func() { BFloat16ToFloat32(wide, half) },
		"Float32ToBFloat16": func() { Float32ToBFloat16(half, wide) },
		"Float16ToFloat32":  func() { Float16ToFloat32(wide, half) },
		"Float32ToFloat16":  func() { Float32ToFloat16(half, wide) },
	} {
		eachVariant(b, func(b *testing.B) {
			b.SetBytes(6 * n)
			for b.Loop() {
				f()
			}
		}, name)
	}
}
