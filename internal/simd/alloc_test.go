//go:build !race

package simd

import (
	"runtime"
	"testing"
)

// TestCallsAllocateNothing leaves room for new goroutines. The race detector empties pools at
// random, so that it has no part in this.
func TestCallsAllocateNothing(t *testing.T) {
	defer SetThreads(0)
	const n = 64
	x := make([]float32, n*n)
	y := make([]float32, n*n)
	onTiles := make([]TileProduct, 3)
	for i := range onTiles {
		onTiles[i].Product = Product{M: n, N: n, K: n, A: Matrix{Data: x, Stride: n}, B: Matrix{Data: x, Stride: n}, C: y,
			StrideC: n}
	}
	part := func(lo, hi int) { clear(y[lo:hi]) }
	for _, threads := range []int{1, 3} {
		SetThreads(threads)
		for name, call := range map[string]func(){
			"Parallel": func() { Parallel(len(y), 1, part) },
			"Multiply": func() { gemmNN(n, n, n, x, n, x, n, y, n, false) },
			"tiles": func() {
				if HasTiles() {
					multiplyOnTiles(onTiles)
				}
			},
		} {
			if got := testing.AllocsPerRun(50, call); got >= float64(max(threads, 2)) {
				t.Errorf("%s allocates %g times with %d threads", name, got, threads)
			}
		}
	}
}

// TestAProductFindsItsRoomAgain has garbage collected twice between two products, which empties a sync.Pool. With a
// second thread, that may have come too late for the first product, and need room of its own in the second.
func TestAProductFindsItsRoomAgain(t *testing.T) {
	SetThreads(1)
	defer SetThreads(0)
	n := 256 // for tiles, which are not emulated
	if testing.Short() {
		n = 128
	}
	x, y := make([]float32, n*n), make([]float32, n*n)
	p := TileProduct{Product: Product{M: n, N: n, K: n, A: Matrix{Data: x, Stride: n}, B: Matrix{Data: x, Stride: n},
		C: y, StrideC: n}}
	for name, call := range map[string]func(){
		"Multiply": func() { Multiply(p.Product) }, "MultiplyTiles": func() { MultiplyTiles(p) },
	} {
		var before, after runtime.MemStats
		call()
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
			t.Errorf("%s allocates %d bytes after collections of garbage", name, got)
		}
	}
}
