package ceiling

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/hugepage"
	"github.com/seed98097648/tune/internal/simd"
)

// BenchmarkFewRows multiplies few rows with a weight that no cache holds, as decoding does, and
// reports the bytes of the weight that are read in a second, the same for a loop that only reads
// (the best of several), and their ratio.
func BenchmarkFewRows(b *testing.B) {
	defer simd.SetThreads(0)
	const n = 32 << 20
	var mem hugepage.Memory
	block, err := mem.Alloc(4 * n)
	if err != nil {
		b.Fatal(err)
	}
	defer mem.Free(block)
	plain, half := view[float32](block), view[uint16](block)
	for i := range half { // pages that were never written all show the same page of zeros
		half[i] = 0x3f80
	}
	for _, w := range []struct {
		name string
		simd.Matrix
		size int // of an element
	}{{"float32", simd.Matrix{Data: plain}, 4}, {"bfloat16", simd.Matrix{BFloat16: half}, 2},
		{"float16", simd.Matrix{Float16: half}, 2}, {"int8", simd.Matrix{Int8: view[int8](block), Scale: plain}, 1}} {
		for _, k := range []int{1024, 3072} {
			for _, m := range []int{1, 2, 4, 8, 16} {
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("%s/k=%d/rows=%d/threads=%d", w.name, k, m, threads), func(b *testing.B) {
						simd.SetThreads(threads)
						columns := len(block) / w.size / k
						w.Stride = k
						p := simd.Product{M: m, N: columns, K: k, A: simd.Matrix{Data: make([]float32, m*k), Stride: k}, B: w.Matrix,
							TransB: true, Dots: true, C: make([]float32, m*columns), StrideC: columns}
						read := readRate(plain)
						for b.Loop() {
							simd.Multiply(p)
						}
						rate := float64(w.size*k*columns) * float64(b.N) / b.Elapsed().Seconds()
						b.ReportMetric(rate/1e9, "GB/s")
						b.ReportMetric(max(read, readRate(plain))/1e9, "read-GB/s")
						b.ReportMetric(rate/max(read, readRate(plain)), "of-read")
					})
				}
			}
		}
	}
}

// readRate returns the bytes that a loop over x reads in a second.
func readRate(x []float32) (best float64) {
	for range 5 {
		start := time.Now()
		simd.Parallel(len(x), 1, func(lo, hi int) { simd.Max(x[lo:hi]) })
		best = max(best, 4*float64(len(x))/time.Since(start).Seconds())
	}
	return best
}

func view[T any](block []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&block[0])), len(block)/int(unsafe.Sizeof(*new(T))))
}
