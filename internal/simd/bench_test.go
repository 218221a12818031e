package simd

import (
	"fmt"
	"testing"
)

// shapes are those of the products of small language models: rows, inner dimension,
// columns.
var shapes = [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {2048, 512, 1536}, {512, 1024, 3072}, {1024, 512, 8192}, {64, 384, 512}, {64, 512, 384}}

func BenchmarkGemm(b *testing.B) {
	defer SetThreads(0)
	for _, threads := range []int{1, 2} {
		for _, s := range shapes {
			m, k, n := s[0], s[1], s[2]
			x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
			for i := range x {
				x[i] = float32(i%7) / 8
			}
			for i := range y {
				y[i] = float32(i%5) / 8
			}
			for _, f := range forms {
				p := Product{M: m, N: n, K: k, A: Matrix{Data: x, Stride: k}, B: Matrix{Data: y, Stride: n}, TransA: f.transA, TransB: f.transB, C: z, StrideC: n}
				if f.transA {
					p.A.Stride = m
				}
				if f.transB {
					p.B.Stride = k
				}
				for _, v := range variants {
					b.Run(fmt.Sprintf("%dx%dx%d/%s/%s/threads=%d", m, k, n, f.name, v.name, threads), func(b *testing.B) {
						defer func(v *variant) { active = v }(active)
						active = v
						SetThreads(threads)
						for b.Loop() {
							Multiply(p)
						}
						b.ReportMetric(2*p.work()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
					})
				}
			}
		}
	}
}
