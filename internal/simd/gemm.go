package simd

import (
	"sync/atomic"
)

// StepTerms is the largest inner dimension of a product whose sums are computed in one step, and
// then are written to C, or added.
const StepTerms = tileK

// What a product panics with.
const (
	shortA    = "simd: a is shorter than its sizes say"
	shortB    = "simd: b is shorter than its sizes say"
	shortC    = "simd: c is shorter than its sizes say"
	badStride = "simd: a stride is shorter than its row"
	negSize   = "simd: negative size"
)

// Matrix is an operand of a product, row-major: Data, or one of the fields after it for
// what is not stored as float32, which is widened once, on its way into the cache.
type Matrix struct {
	Data     []float32
	Stride   int      // elements from one row to the next
	BFloat16 []uint16 // bits, used instead of Data when set
	Float16  []uint16 // bits, used instead of Data when set
	// Int8, used instead of Data when set, has whole numbers; those of row r are multiplied
	// by Scale[r].
	Int8  []int8
	Scale []float32
	// Load, when set, is used instead of all these: it writes stored elements
	// [from, from+len(dst)), which are of one row, to dst as float32. It is called from
	// several goroutines.
	Load func(dst []float32, from int)
	// Rounded has each element rounded to bfloat16, to nearest even, on its way into the cache.
	Rounded bool
}

// Product is one matrix product C = op(A)*op(B), or C += op(A)*op(B), where op(A) is
// M by K, op(B) is K by N and op transposes if asked. C must not overlap an operand.
type Product struct {
	M, N, K        int
	A, B           Matrix
	TransA, TransB bool // A is stored [K,M]; B is stored [N,K]
	// Panels is B as PackPanels has made it, for callers that multiply with the same matrix again; nil: it is packed
	// for this call. B is still needed, and the bits are the same.
	Panels     *Panels
	C          []float32
	StrideC    int
	Accumulate bool
	Dots       bool // see FewRows
	// Finish, when set, is called once for every piece of a row of C, from (row, col) on,
	// as soon as its sums are complete and while it is in the first-level cache: to add a
	// bias, to apply an activation, to round it to storage. It is called from several
	// goroutines, and where C is cut depends on their number, so it must treat each
	// element by itself.
	Finish func(c []float32, row, col int)
	across bool // C is stored [N,M]; see turned
}

// Multiply computes independent products together, so that many small ones, such as
// those of the experts of a layer, keep all cores busy. With K = 0 the sum is empty:
// C becomes zero, or stays as it is when accumulating.
func Multiply(products ...Product) {
	m := multiplications.get()
	m.products = append(m.products[:0], products...)
	for i := range m.products {
		m.products[i].check()
		m.products[i] = m.products[i].turned(active.gemm)
	}
	m.kernel = active.gemm
	workers := m.split(Threads())
	m.next.Store(0)
	run(workers, m.work)
	clear(m.products) // they hold on to the operands
	multiplications.put(m)
}

// multiplication is one call of Multiply. They are used again, so that a call allocates
// nothing.
type multiplication struct {
	products []Product
	tiles    []tile
	kernel   *gemmKernel
	next     atomic.Int64
	work     func(worker int)
}

var multiplications = stock[multiplication]{make: func() *multiplication {
	m := &multiplication{}
	m.work = func(int) { m.compute() }
	return m
}}

// compute takes tiles until there are none.
func (m *multiplication) compute() {
	s := scratches.get()
	defer scratches.put(s)
	for i := m.next.Add(1) - 1; i < int64(len(m.tiles)); i = m.next.Add(1) - 1 {
		m.tiles[i].compute(m.kernel, s)
	}
}

func (p *Product) check() {
	if p.M < 0 || p.N < 0 || p.K < 0 {
		panic(negSize)
	}
	p.A.check(p.M, p.K, p.TransA, shortA)
	p.B.check(p.K, p.N, p.TransB, shortB)
	Matrix{Data: p.C, Stride: p.StrideC}.check(p.M, p.N, false, shortC)
	if p.Panels != nil && (p.Panels.k != p.K || p.Panels.n != p.N || p.Panels.kernel != active.gemm) {
		panic("simd: an operand is packed for another product")
	}
}

func (x Matrix) check(rows, cols int, trans bool, short string) {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return
	}
	if x.Stride < cols {
		panic(badStride)
	}
	if x.Load == nil && x.len() < (rows-1)*x.Stride+cols || x.Int8 != nil && len(x.Scale) < rows {
		panic(short)
	}
}

// len returns the number of stored elements.
func (x Matrix) len() int {
	switch {
	case x.BFloat16 != nil:
		return len(x.BFloat16)
	case x.Float16 != nil:
		return len(x.Float16)
	case x.Int8 != nil:
		return len(x.Int8)
	}
	return len(x.Data)
}
