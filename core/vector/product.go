package vector

import (
	"fmt"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Matrix is an operand of a product, row-major: Data, or one of the fields after it for
// what is not stored as float32, which is widened once, on its way into the cache.
type Matrix struct {
	Data     []float32
	Stride   int      // elements from one row to the next, at least those of a row
	BFloat16 []uint16 // bits, used instead of Data when set
	Float16  []uint16 // bits, used instead of Data when set
	// Int8, used instead of Data when set, has whole numbers; those of row r are multiplied
	// by Scale[r].
	Int8  []int8
	Scale []float32
	// NF4, used instead of Data when set, is a weight in NF4; see NF4Of.
	NF4 *NF4
	// Rounded has each element rounded to bfloat16, to nearest even, on its way into the cache.
	Rounded bool
}

// MatrixOf returns a tensor in float32, bfloat16 or float16 as an operand: its rows are those
// of the last axis. It panics on another dtype.
func MatrixOf(x core.Tensor) Matrix {
	m := Matrix{Stride: x.Shape[len(x.Shape)-1]}
	switch x.DType {
	case core.Float32:
		m.Data = x.Float32s()
	case core.BFloat16:
		m.BFloat16 = x.Uint16s()
	case core.Float16:
		m.Float16 = x.Uint16s()
	default:
		panic(fmt.Sprintf("vector: a product with a %s tensor", x.DType))
	}
	return m
}

// Load widens elements of a matrix with so many columns, counted row after row, from the one of that number on, to dst,
// as products have them: for a kernel that multiplies elsewhere. It does not round.
func (x Matrix) Load(dst []float32, cols, from int) {
	for len(dst) > 0 {
		row, col := from/cols, from%cols
		n := min(cols-col, len(dst))
		if x.Stride == cols && x.Int8 == nil {
			n = len(dst)
		}
		x.loadRow(dst[:n], row, row*x.Stride+col)
		dst, from = dst[n:], from+n
	}
}

// loadRow widens elements of a row, or of several that follow each other, from the one of that index on.
func (x Matrix) loadRow(dst []float32, row, at int) {
	end := at + len(dst)
	switch {
	case x.NF4 != nil:
		x.NF4.load(dst, at)
	case x.Int8 != nil:
		for i, q := range x.Int8[at:end] {
			dst[i] = float32(q) * x.Scale[row]
		}
	case x.BFloat16 != nil:
		simd.BFloat16ToFloat32(dst, x.BFloat16[at:end])
	case x.Float16 != nil:
		simd.Float16ToFloat32(dst, x.Float16[at:end])
	default:
		copy(dst, x.Data[at:end])
	}
}

// Product is one matrix product C = op(A)*op(B), or C += op(A)*op(B), where op(A) is
// M by K, op(B) is K by N and op transposes if asked. C must not overlap an operand.
type Product struct {
	M, N, K        int
	A, B           Matrix
	TransA, TransB bool // A is stored [K,M]; B is stored [N,K]
	C              []float32
	StrideC        int // elements from one row of C to the next
	Accumulate     bool
	Dots           bool // see FewRows

	panels *simd.Panels // what Kept has made of B
}

// FewRows is how many rows A of a Product with Dots may have for it to be computed from the rows
// of B as they are stored, if B is transposed, and A is not and is float32. Such a product is
// bound by the bandwidth of memory, and this way reads B once, as it lies; with more rows it is
// faster to copy B into the cache first, which Multiply does.
//
// A row has the same bits however many others there are, up to this number. The two ways add in
// different orders: who sets Dots says that bits may depend on whether there are more.
const FewRows = simd.FewRows

// StepTerms is the largest inner dimension that Multiply and MultiplyTiles do in one step: with
// Accumulate, an element of C is added to once, when its sum is complete.
const StepTerms = simd.StepTerms

// Multiply computes independent products together, over all threads, so that many small
// ones, such as those of the experts of a layer, keep all of them busy. Each element of C
// is a sum in float32 in steps of the inner dimension of at most 512. With K = 0 the sum is
// empty: C becomes zero, or stays as it is when accumulating. It allocates nothing.
func Multiply(products ...Product) {
	list := lists.Get().(*[]simd.Product)
	for i := range products {
		*list = append(*list, products[i].product())
	}
	simd.Multiply(*list...)
	clear(*list) // they hold on to the operands
	*list = (*list)[:0]
	lists.Put(list)
}

// lists are used again, so that a call allocates nothing.
var lists = sync.Pool{New: func() any { return new([]simd.Product) }}

func (p *Product) product() simd.Product {
	return simd.Product{M: p.M, N: p.N, K: p.K, A: p.A.operand(), B: p.B.operand(), TransA: p.TransA, TransB: p.TransB,
		C: p.C, StrideC: p.StrideC, Accumulate: p.Accumulate, Dots: p.Dots, Panels: p.panels}
}

func (x Matrix) operand() simd.Matrix {
	m := simd.Matrix{Data: x.Data, Stride: x.Stride, BFloat16: x.BFloat16, Float16: x.Float16, Int8: x.Int8, Scale: x.Scale,
		Rounded: x.Rounded}
	if x.NF4 != nil {
		m.Load = x.NF4.load
	}
	return m
}

// Empty computes a product of nothing, for which the operands may have no memory: without rows or columns, or
// without an inner dimension, where C becomes zero, or stays as it is when accumulating. It reports whether p is one. It
// is for kernels that multiply by other means.
func (p *Product) Empty() bool {
	if p.M > 0 && p.N > 0 && p.K > 0 {
		return false
	}
	if p.N > 0 && !p.Accumulate {
		for r := range p.M {
			clear(p.C[r*p.StrideC:][:p.N])
		}
	}
	return true
}
