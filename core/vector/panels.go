package vector

import "github.com/seed98097648/tune/internal/simd"

// Panels holds the right operand B [K,N] of a series of products, copied once into the form
// that suits the cache. Its products are for kernels that spread larger pieces of work over
// the threads themselves, such as the heads of attention: each runs in the goroutine that
// asks for it. The zero value is ready.
type Panels struct{ panels simd.Panels }

// Pack makes the panels those of b, which is stored row-major [k,n], or [n,k] if trans;
// stride is the distance between its rows. It reuses the memory of what was there.
func (p *Panels) Pack(k, n int, b []float32, stride int, trans bool) {
	p.panels.Pack(k, n, b, stride, trans)
}

// Multiply computes a strip.
func (p *Panels) Multiply(s Strip) { p.panels.Multiply(simd.Strip(s)) }

// PanelRows returns of how many rows a product with panels makes the most: it computes
// them at once, and fewer take longer each. It depends on the processor.
func PanelRows() int { return simd.PanelRows() }

// PanelStart returns the largest column up to col that a product with panels may start at.
// It depends on the processor.
func PanelStart(col int) int { return simd.PanelStart(col) }

// PanelEnd returns the smallest column from col on that a product with panels had better
// end at, also beyond those of the panels: up to there a vector is computed anyway, or a
// panel where the processor has no kernel for a part of one. What a product writes beyond
// the columns that there are is undefined.
func PanelEnd(col int) int { return simd.PanelEnd(col) }

// Strip is a product with a part of some panels: C = op(A)*B[K0:K1,N0:N1], or C += that.
// op(A) is M by K1-K0, C is M by N1-N0, and N0 is a PanelStart. A needs no packing, but
// its rows should not lie a multiple of 4096 bytes apart, where caches have few places.
type Strip struct {
	M, K0, K1, N0, N1 int
	A                 []float32
	StrideA           int  // elements from one stored row of A to the next
	TransA            bool // A is stored [K1-K0,M]
	C                 []float32
	StrideC           int // elements from one row of C to the next
	Accumulate        bool
}

// Prefetch asks for x to be brought into the caches, while there is other work to do: rows
// of a head lie far apart, where processors do not see what comes next. It changes nothing.
func Prefetch(x []float32) { simd.Prefetch(x) }
