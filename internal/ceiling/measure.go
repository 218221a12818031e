package ceiling

import (
	"context"
	"fmt"
	"time"

	"github.com/seed98097648/tune/internal/simd"
)

const (
	// length is that of each of the three arrays of the bandwidth's loop: with 192 MiB in
	// all, last-level caches hold little of them.
	length = 64 << 20 / 4
	// long is how long the figures are measured. They take turns, and of each the best
	// round counts: what disturbs a round only ever makes it slower.
	long = time.Second
	// edge is that of the matrices. Slow machines get smaller ones, so that a product
	// takes no longer than a few times slow.
	edge, leastEdge = 1024, 128
	slow            = 10 * time.Millisecond
)

// Measure finds the ceilings with so many threads, and with one; 0 is one for each core.
// It takes about a second and 192 MiB. It sets the number of threads of package simd
// while it runs, so nothing else may compute meanwhile. When ctx ends, so does Measure,
// with its error.
func Measure(ctx context.Context, threads int) (Ceilings, error) {
	defer simd.SetThreads(simd.Threads())
	simd.SetThreads(threads)
	c := Ceilings{Threads: simd.Threads()}
	sum, product := newSum(), newProduct()
	sum.run() // the first time touches the memory
	for begin := time.Now(); c.Bandwidth == 0 || time.Since(begin) < long; {
		for _, f := range []struct {
			threads int
			work    work
			rate    *float64
		}{
			{c.Threads, sum, &c.Bandwidth}, {c.Threads, product, &c.Products},
			{1, sum, &c.Bandwidth1}, {1, product, &c.Products1},
		} {
			if err := ctx.Err(); err != nil {
				return Ceilings{}, fmt.Errorf("ceiling: measure the machine: %w", err)
			}
			simd.SetThreads(f.threads)
			*f.rate = max(*f.rate, f.work.rate())
		}
	}
	return c, nil
}

// work is what is done again and again, and how much it is: bytes or operations.
type work struct {
	run    func()
	amount float64
}

// rate does the work once and returns how much of it there was for each second.
func (w work) rate() float64 {
	start := time.Now()
	w.run()
	return w.amount / max(time.Since(start), 1).Seconds()
}

// newSum is the loop a[i] = b[i] + c[i], STREAM's "add". It moves as many bytes as its
// triad, a[i] = b[i] + s*c[i], and takes as long, because memory limits both.
func newSum() work {
	a, b, c := make([]float32, length), make([]float32, length), make([]float32, length)
	// Pages that were never written all show the same page of zeros, which stays in the cache.
	for i := range b {
		b[i], c[i] = 1, 2
	}
	return work{amount: 3 * 4 * length, run: func() {
		simd.Parallel(length, 1<<14, func(lo, hi int) { simd.Add(a[lo:hi], b[lo:hi], c[lo:hi]) })
	}}
}

// newProduct is a product of two square matrices, as large as the machine is fast.
func newProduct() work {
	a, b, c := make([]float32, edge*edge), make([]float32, edge*edge), make([]float32, edge*edge)
	for i := range a {
		a[i], b[i] = 1, 0.5
	}
	for n := leastEdge; ; n *= 2 {
		w := work{amount: 2 * float64(n) * float64(n) * float64(n), run: func() { simd.GemmNN(n, n, n, a, n, b, n, c, n, false) }}
		start := time.Now()
		w.run()
		if n == edge || time.Since(start) > slow {
			return w
		}
	}
}
