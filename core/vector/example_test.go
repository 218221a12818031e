package vector_test

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// A row of a softmax: the largest element is taken off first, so that none overflows.
func Example() {
	row := []float32{1, 3, 3, 1000}
	sum := vector.ExpSum(row, row, 1, vector.Max(row))
	vector.Scale(row, row, float32(1/sum))
	fmt.Println(row)
	// Output: [0 0 0 1]
}

// The rows of a layer are shared out among the threads. Each row is computed as it would be
// alone, so the result has the same bits for any number of threads.
func ExampleParallel() {
	const tokens, dim = 3, 4
	x := []float32{1, 1, 1, 1, 3, 3, 3, 3, 0, 0, 0, 5}
	rstd := make([]float32, tokens)
	grain := 1 + (1<<14)/dim // rows that are worth another thread
	vector.Parallel(tokens, grain, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			rstd[t] = float32(1 / math.Sqrt(vector.SumSquares(x[t*dim:][:dim])/dim))
		}
	})
	fmt.Println(rstd)
	// Output: [1 0.33333334 0.4]
}

// Half precision is widened a row at a time, and rounded when it is written.
func ExampleLoad() {
	x, y := core.NewTensor(core.BFloat16, 2, 3), core.NewTensor(core.BFloat16, 2, 3)
	x.Store([]float32{1, 2, 3, 4, 5, 6}, 0)
	row := make([]float32, 3)
	for t := range 2 {
		vector.Load(row, x, t*3)
		vector.Scale(row, row, 1.0/3)
		vector.Store(y, row, t*3)
	}
	vector.Load(row, y, 3)
	fmt.Println(row)
	// Output: [1.3359375 1.6640625 2]
}

// An output in half precision is computed in float32 elsewhere, one in float32 where it is.
func ExampleWide() {
	var kept []float32 // a field of the kernel
	for _, d := range []core.DType{core.Float32, core.BFloat16} {
		y := core.NewTensor(d, 2)
		wide := vector.Wide(&kept, y)
		wide[0], wide[1] = 1.0/3, 2
		vector.Narrow(y, wide)
		got := make([]float32, 2)
		vector.Load(got, y, 0)
		fmt.Println(got, len(kept))
	}
	// Output:
	// [0.33333334 2] 0
	// [0.33398438 2] 2
}

// Some operations round on their way: what is stored is what is computed with.
func ExampleRound() {
	v := []float32{1.0 / 3, 2.0 / 3}
	vector.Round(v, core.BFloat16, make([]uint16, len(v)))
	fmt.Println(v)
	// Output: [0.33398438 0.66796875]
}

// A linear layer: y = x weight^T, the weight stored [out,in] in half precision.
func ExampleMultiply() {
	x := []float32{1, 2, 3, 4} // [2,2]
	weight := core.NewTensor(core.BFloat16, 3, 2)
	weight.Store([]float32{1, 0, 0, 1, 1, 1}, 0)
	y := make([]float32, 2*3)
	vector.Multiply(vector.Product{M: 2, N: 3, K: 2, A: vector.Matrix{Data: x, Stride: 2},
		B: vector.MatrixOf(weight), TransB: true, C: y, StrideC: 3})
	fmt.Println(y)
	// Output: [1 2 3 3 4 7]
}

// The loops of a layer are methods of Stream, which decides by the size of a call whether
// its results are worth keeping in the caches.
func ExampleStream() {
	gate, up, y := []float32{0, 100}, []float32{7, 0.5}, make([]float32, 2)
	stream := vector.StreamFor(int64(4 * (len(gate) + len(up) + len(y))))
	vector.Parallel(1, 1, func(lo, hi int) { stream.SwiGLU(y, gate, up) })
	fmt.Println(stream, y)
	// Output: false [0 50]
}

// Panels are packed once and used by many small products, each in its own goroutine: here
// the scores of two queries with the keys of a head.
func ExamplePanels() {
	const dim, keys = 2, 3
	k := []float32{1, 0, 0, 1, 1, 1} // [keys,dim]
	var panels vector.Panels
	panels.Pack(dim, keys, k, dim, true)
	q, scores := []float32{1, 2, 3, 4}, make([]float32, 2*keys)
	panels.Multiply(vector.Strip{M: 2, K1: dim, N1: keys, A: q, StrideA: dim, C: scores, StrideC: keys})
	fmt.Println(scores)
	// Output: [1 2 3 3 4 7]
}

// A kernel keeps its scratch memory from call to call.
func ExampleGrow() {
	var kept []float32 // a field of the kernel
	for _, tokens := range []int{4, 2} {
		room := vector.Grow(&kept, tokens*8)
		fmt.Println(len(room), cap(kept))
	}
	// Output:
	// 32 32
	// 16 32
}
