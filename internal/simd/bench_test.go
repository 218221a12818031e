package simd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// shapes are those of the products of small language models: rows, inner dimension,
// columns.
var shapes = [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {2048, 512, 1536}, {512, 1024, 3072}, {1024, 512, 8192},
	{64, 384, 512}, {64, 512, 384}, {512, 128, 384}, {1536, 1024, 512}, {8192, 1024, 512}}

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
	rng := rand.New(rand.NewPCG(1, 1))
	for e := range 32 { // memory that nobody has written is one page, again and again
		m := 1 + e*e/4
		group = append(group, Product{M: m, N: out, K: in, A: operand(b, rng, m, in, 0, false),
			B: operand(b, rng, in, out, 0, true), TransB: true, C: make([]float32, m*out), StrideC: out})
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

// layers are those of models with a weight, or one for each of several experts: tokens, inputs and outputs.
var layers = []struct {
	name                     string
	experts, tokens, in, out int
}{
	{"small_q_o", 1, 1024, 512, 512}, {"small_k_v", 1, 1024, 512, 256}, {"small_gate_up", 1, 1024, 512, 1536},
	{"small_down", 1, 1024, 1536, 512}, {"small_head", 1, 1024, 512, 8192},
	{"moe_router", 1, 1024, 512, 32}, {"moe_gate_up", 32, 128, 512, 768}, {"moe_down", 32, 128, 384, 512},
	{"slice_q", 1, 512, 1024, 2048}, {"slice_k_v", 1, 512, 1024, 1024}, {"slice_o", 1, 512, 2048, 1024},
	{"slice_gate_up", 1, 512, 1024, 3072}, {"slice_down", 1, 512, 3072, 1024},
}

// BenchmarkTiles has the products of BenchmarkGemm and those of layers: NT for the outputs, NN for the
// gradient of the inputs and TN for that of the weight. "packed" has the weight packed before, and
// "bfloat16" stored so; of it, "both" has the other operand, too;
// "rounded" has both in float32, rounded on their way.
func BenchmarkTiles(b *testing.B) {
	needTiles(b)
	defer SetThreads(0)
	for _, s := range shapes {
		for form := range forms {
			benchmarkTiles(b, fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), 1, form, s[0], s[1], s[2])
		}
	}
	for _, l := range layers {
		benchmarkTiles(b, l.name, l.experts, 1, l.tokens, l.in, l.out)
		benchmarkTiles(b, l.name, l.experts, 0, l.tokens, l.out, l.in)
		benchmarkTiles(b, l.name, l.experts, 2, l.out, l.tokens, l.in)
	}
}

func benchmarkTiles(b *testing.B, name string, count, form, m, k, n int) {
	f := forms[form]
	half := func(x Matrix) Matrix {
		h := make([]uint16, len(x.Data))
		Float32ToBFloat16(h, x.Data)
		return Matrix{BFloat16: h, Stride: x.Stride}
	}
	for _, threads := range []int{1, 2} {
		for _, way := range []string{"avx512", "tiles", "packed", "bfloat16", "both", "rounded", "rounded_avx512"} {
			if f.transA && way == "packed" {
				continue // no weight
			}
			b.Run(fmt.Sprintf("%s/%s/threads=%d/%s", name, f.name, threads, way), func(b *testing.B) {
				SetThreads(threads)
				rng := rand.New(rand.NewPCG(1, 1))
				var products []Product
				var onTiles []TileProduct
				for range count {
					p := TileProduct{Product: Product{M: m, N: n, K: k, A: numbers(rng, m, k, f.transA),
						B: numbers(rng, k, n, f.transB), TransA: f.transA, TransB: f.transB, C: make([]float32, m*n), StrideC: n}}
					switch way {
					case "packed":
						p.PackedB = PackRight(k, n, p.B, f.transB)
					case "both":
						p.A, p.B = half(p.A), half(p.B)
					case "rounded", "rounded_avx512":
						p.A.Rounded, p.B.Rounded = true, true
					case "bfloat16":
						p.B = half(p.B)
					}
					products, onTiles = append(products, p.Product), append(onTiles, p)
				}
				for b.Loop() {
					if strings.HasSuffix(way, "avx512") {
						Multiply(products...)
					} else {
						multiplyOnTiles(onTiles)
					}
				}
				b.ReportMetric(2*float64(count)*products[0].work()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkPanels has the products of the slice with a weight that is packed for each, and once before.
func BenchmarkPanels(b *testing.B) {
	defer SetThreads(0)
	for _, l := range layers {
		if !strings.HasPrefix(l.name, "slice") {
			continue
		}
		for form, k := range []int{l.out, l.in} { // NN gives the gradient of the inputs, NT the outputs
			m, n := l.tokens, l.in+l.out-k
			rng := rand.New(rand.NewPCG(1, 1))
			p := Product{M: m, N: n, K: k, A: numbers(rng, m, k, false), B: numbers(rng, k, n, form == 1), TransB: form == 1,
				C: make([]float32, m*n), StrideC: n}
			for _, threads := range []int{1, 2} {
				for _, way := range []string{"each", "once"} {
					b.Run(fmt.Sprintf("%s/%s/threads=%d/%s", l.name, forms[form].name, threads, way), func(b *testing.B) {
						SetThreads(threads)
						if p.Panels = nil; way == "once" {
							p.Panels = PackPanels(k, n, p.B, p.TransB, aligned(PanelsSize(k, n)))
						}
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

// numbers returns a matrix as operand does, without a closed page, of which a process has only so many.
func numbers(rng *rand.Rand, rows, cols int, trans bool) Matrix {
	if trans {
		rows, cols = cols, rows
	}
	return Matrix{Data: random(rng, rows*cols), Stride: cols}
}

func BenchmarkCodes(b *testing.B) {
	c, x := codesOf(true, 256)
	codes := make([]uint8, len(x))
	eachVariant(b, func(b *testing.B) {
		b.SetBytes(int64(4 * len(x)))
		for b.Loop() {
			c.Encode(codes, x, []float32{MaxAbs(x)})
			c.Decode(x, codes, 1)
		}
	})
}
