package ceiling

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/hugepage"
	"github.com/seed98097648/tune/internal/simd"
)

const (
	// length is that of each of the three arrays of the bandwidth's loop: with 192 MiB in
	// all, last-level caches hold little of them.
	length = 64 << 20 / 4
	// glance is that of them in less than no time: the system clears 192 MiB for longer than all else takes.
	glance = 1 << 16
	// long is how long Measure takes. The figures take turns, and of each the best round
	// counts: what disturbs a round only ever makes it slower.
	long = time.Second
	// edge is that of square matrices. Slow machines get smaller ones, so that a product
	// takes no longer than a few times slow.
	edge, leastEdge = 1024, 128
	slow            = 10 * time.Millisecond
)

// Measure finds the ceilings with so many threads, and with one; 0 is one for each core.
// It takes about a second and 192 MiB. It sets the number of threads of package simd
// while it runs, so nothing else may compute meanwhile. When ctx ends, so does Measure,
// with its error.
func Measure(ctx context.Context, threads int) (Ceilings, error) {
	return MeasureFor(ctx, threads, long)
}

// Range is MeasureFor in parts, of which it returns the best and the worst figures: on a
// machine that others use too, a program gets something in between. In no time there is one part.
func Range(ctx context.Context, threads int, long time.Duration) (best, worst Ceilings, err error) {
	parts := 5
	if long <= 0 {
		parts = 1
	}
	err = measure(ctx, threads, parts, long/time.Duration(parts), func(c Ceilings) {
		if best == (Ceilings{}) {
			best, worst = c, c
		}
		best, worst = best.Best(c), worst.Worst(c)
	})
	if err != nil {
		return Ceilings{}, Ceilings{}, err
	}
	return best, worst, nil
}

// MeasureFor is Measure in another time, or a little more; in none it does everything
// once, which takes a tenth of a second. A machine that others use too is fast now and
// then: who measures something else meanwhile looks again in between, and takes the Best.
// In less than no time the figures are those of caches and of small matrices, for tests
// that start many programs.
func MeasureFor(ctx context.Context, threads int, long time.Duration) (c Ceilings, err error) {
	err = measure(ctx, threads, 1, long, func(of Ceilings) { c = of })
	return c, err
}

// measure measures in so many parts, each so long, and calls got with the ceilings of each. The memory is the same
// for all: to have the system clear it takes as long as many a part.
func measure(ctx context.Context, threads, parts int, long time.Duration, got func(Ceilings)) error {
	defer simd.SetThreads(simd.Threads())
	simd.SetThreads(threads)
	threads = simd.Threads()
	length := length
	if long < 0 {
		length = glance
	}
	var mem hugepage.Memory // not the heap, where it would stay for a while as garbage
	block, err := mem.Alloc(3 * 4 * length)
	if err != nil {
		return fmt.Errorf("ceiling: measure the machine: %w", err)
	}
	defer mem.Free(block)
	all := unsafe.Slice((*float32)(unsafe.Pointer(&block[0])), 3*length)
	x, y, z := all[:length], all[length:2*length], all[2*length:]
	// Pages that were never written all show the same page of zeros, which stays in the cache.
	for i := range all {
		all[i] = 1
	}
	sums := []work{newSum(x, y, z)}
	products := slices.Repeat(newProducts(x, y, z), 2) // first with operands from memory, as sums leave them
	for range parts {
		c, err := part(ctx, threads, long, sums, products)
		if err != nil {
			return fmt.Errorf("ceiling: measure the machine: %w", err)
		}
		got(c)
	}
	return nil
}

// part measures for so long, and everything once at least.
func part(ctx context.Context, threads int, long time.Duration, sums, products []work) (Ceilings, error) {
	c := Ceilings{Threads: threads}
	for begin := clock.Now(); c.Bandwidth == 0 || clock.Since(begin) < long; {
		for _, f := range []struct {
			threads int
			works   []work
			best    *float64
		}{
			{threads, sums, &c.Bandwidth}, {threads, products, &c.Products},
			{1, sums, &c.Bandwidth1}, {1, products, &c.Products1},
		} {
			simd.SetThreads(f.threads)
			for _, w := range f.works {
				if err := ctx.Err(); err != nil {
					return Ceilings{}, err
				}
				start := clock.Now()
				w.run()
				*f.best = max(*f.best, w.amount/max(clock.Since(start), 1).Seconds())
			}
		}
	}
	return c, nil
}

// work is what is done again and again, and how much it is: bytes or operations.
type work struct {
	run    func()
	amount float64
}

// newSum is the loop x[i] = y[i] + z[i], STREAM's "add". It moves as many bytes as its
// triad, x[i] = y[i] + s*z[i], and takes as long, because memory limits both.
func newSum(x, y, z []float32) work {
	return work{amount: 3 * 4 * float64(len(x)), run: func() {
		simd.Parallel(len(x), 1<<14, func(lo, hi int) { simd.Add(x[lo:hi], y[lo:hi], z[lo:hi]) })
	}}
}

// newProducts are products of matrices as large as the machine is fast and x has room, into x:
// of square ones, and of those of a layer, more rows and fewer terms, which some machines do
// faster.
func newProducts(x, y, z []float32) []work {
	product := func(m, n, k int) work {
		return work{amount: 2 * float64(m) * float64(n) * float64(k),
			run: func() {
				simd.Multiply(simd.Product{M: m, N: n, K: k, A: simd.Matrix{Data: y, Stride: k},
					B: simd.Matrix{Data: z, Stride: n}, C: x, StrideC: n})
			}}
	}
	for n := leastEdge; ; n *= 2 {
		w := product(n, n, n)
		start := clock.Now()
		w.run()
		if n == edge || clock.Since(start) > slow || 3*(2*n)*(2*n) > len(x) {
			return []work{w, product(2*n, 3*n/2, n/2)}
		}
	}
}
