package vector_test

import (
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd"
)

// matrix returns a tensor [rows, cols] and its operand in simd.
func matrix(d core.DType, rows, cols int) (core.Tensor, simd.Matrix) {
	x := core.NewTensor(d, rows, cols)
	x.Store(newRoom(rows * cols)[0], 0)
	m := simd.Matrix{Stride: cols}
	switch d {
	case core.BFloat16:
		m.BFloat16 = x.Uint16s()
	case core.Float16:
		m.Float16 = x.Uint16s()
	default:
		m.Data = x.Float32s()
	}
	return x, m
}

// TestProductsAreThoseOfSimd goes through every field of a Product.
func TestProductsAreThoseOfSimd(t *testing.T) {
	for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16} {
		for _, size := range [][3]int{{1, 5, 3}, {8, 40, 600}, {65, 33, 130}} {
			for i := range 16 {
				p := vector.Product{M: size[0], N: size[1], K: size[2], TransA: i&1 > 0, TransB: i&2 > 0, Accumulate: i&4 > 0, Dots: i&8 > 0}
				p.StrideC = p.N + 3
				s := simd.Product{M: p.M, N: p.N, K: p.K, TransA: p.TransA, TransB: p.TransB, Accumulate: p.Accumulate, Dots: p.Dots, StrideC: p.StrideC}
				rows, cols := p.M, p.K
				if p.TransA {
					rows, cols = cols, rows
				}
				var x core.Tensor
				x, s.A = matrix(core.Float32, rows, cols)
				p.A = vector.MatrixOf(x)
				rows, cols = p.K, p.N
				if p.TransB {
					rows, cols = cols, rows
				}
				x, s.B = matrix(d, rows, cols)
				p.B = vector.MatrixOf(x)
				p.C, s.C = newRoom(p.M * p.StrideC)[1], newRoom(p.M * p.StrideC)[1]
				vector.Multiply(p)
				simd.Multiply(s)
				sameBits(t, fmt.Sprintf("%s %v %d", d, size, i), p.C, s.C)
			}
		}
	}
	if vector.FewRows != simd.FewRows {
		t.Errorf("FewRows is %d, want %d", vector.FewRows, simd.FewRows)
	}
}

// TestManyProductsAtOnce: each gets its own operands, and a call allocates nothing.
func TestManyProductsAtOnce(t *testing.T) {
	x, _ := matrix(core.Float32, 9, 7)
	var products []vector.Product
	for n := range 5 {
		products = append(products, vector.Product{M: 9, N: 9, K: n, A: vector.MatrixOf(x), B: vector.MatrixOf(x), TransB: true,
			C: newRoom(81)[0], StrideC: 9})
	}
	vector.Multiply(products...)
	for _, p := range products {
		want := make([]float32, 81)
		own := simd.Matrix{Data: x.Float32s(), Stride: 7}
		simd.Multiply(simd.Product{M: 9, N: 9, K: p.K, A: own, B: own, TransB: true, C: want, StrideC: 9})
		sameBits(t, fmt.Sprintf("K = %d", p.K), p.C, want)
	}
	if n := testing.AllocsPerRun(50, func() { vector.Multiply(products...) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestOnlyFloatsAreOperands(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	vector.MatrixOf(core.NewTensor(core.Int32, 2, 2))
}

// TestPanelsAreThoseOfSimd goes through parts of panels and both forms of both operands.
func TestPanelsAreThoseOfSimd(t *testing.T) {
	const k, n = 70, 100
	b := newRoom(k * n)[0]
	for _, trans := range []bool{false, true} {
		stride := n
		if trans {
			stride = k
		}
		var got vector.Panels
		var want simd.Panels
		got.Pack(k, n, b, stride, trans)
		want.Pack(k, n, b, stride, trans)
		for i := range 4 {
			s := vector.Strip{M: 11, K0: 3, K1: 60, N0: vector.PanelStart(50), N1: n, StrideA: 64, TransA: i&1 > 0, Accumulate: i&2 > 0, StrideC: 101}
			s.A, s.C = newRoom(64 * 64)[2], newRoom(11 * 101)[3]
			o := simd.Strip(s)
			o.C = newRoom(11 * 101)[3]
			got.Multiply(s)
			want.Multiply(o)
			sameBits(t, fmt.Sprintf("trans %v, %d", trans, i), s.C, o.C)
		}
	}
	if vector.PanelRows() != simd.PanelRows() || vector.PanelStart(77) != simd.PanelStart(77) || vector.PanelEnd(77) != simd.PanelEnd(77) {
		t.Error("panels have other edges")
	}
}
